//! Nothing leads out of a root, by any operation, over HTTP or stdio.

use super::{OPEN, Session, addresses, ask, listen, text};
use crate::support::{Kind, Yard, is_root, require};
use serde_json::json;
use std::fs;
use std::os::unix::fs::{chown, symlink};

const WAYS_OUT: &[&str] = &[
    "yard://notes/../outside.txt",
    "yard://notes/%2e%2e/outside.txt",
    "yard://notes/%2E%2e%2foutside.txt",
    "yard://notes/%252e%252e/outside.txt",
    "yard://notes/%252e%252e%252foutside.txt",
    "yard://notes//etc/passwd",
    "yard://notes/%2fetc%2fpasswd",
    "yard:///etc/passwd",
    "yard://notes/..\\outside.txt",
    "yard://notes/..%5coutside.txt",
    "yard://notes/last",
    "yard://notes/middle/outside.txt",
    "yard://notes/sub/middle/outside.txt",
    "yard://notes/hard",
    "yard://notes/proc/self/environ",
    "yard://notes/proc/self/root/etc/passwd",
    "yard://notes//proc/self/environ",
    "yard://notes/fifo",
    "yard://notes/.hidden",
    "yard://notes/a.txt%00",
    "yard://notes/a.txt\u{0}",
    "yard://notes/sub",
    "yard://notes@evil/a.txt",
    "yard://notes:80/a.txt",
    "yard://evil/a.txt",
    "YARD://notes/a.txt",
    "file:///etc/passwd",
    "file://notes/a.txt",
    "http://127.0.0.1/a.txt",
    "/etc/passwd",
    "../outside.txt",
    "",
];

/// A root with links and other entries that could lead out.
fn trapped() -> (Yard, Vec<String>) {
    let yard = Yard::new();
    yard.file("toolyard.toml", OPEN).file("outside.txt", "outside").file("notes/a.txt", "inside");
    yard.file("notes/.hidden", "outside").file("notes/sub/b.txt", "inside").file("theirs/c.txt", "outside");
    let link = |target: &str, name: &str| symlink(target, yard.path("notes").join(name)).unwrap();
    link("../outside.txt", "last");
    link("..", "middle");
    link("../..", "sub/middle");
    link("/proc", "proc");
    rustix::fs::mkfifoat(rustix::fs::CWD, yard.path("notes/fifo"), 0o666.into()).unwrap();
    let mut ways: Vec<String> = WAYS_OUT.iter().map(|way| way.to_string()).collect();
    ways.push(format!("yard://notes/{}", "a".repeat(5000)));
    ways.push(format!("yard://notes/{}x", "a/".repeat(2000)));
    fs::hard_link(yard.path("theirs/c.txt"), yard.path("notes/hard")).unwrap();
    match require(is_root(), "the tests do not run as root, so that no file has another owner") {
        true => chown(yard.path("theirs/c.txt"), Some(12_345), None).unwrap(),
        // Only root can change the owner of a file.
        false => ways.retain(|way| way != "yard://notes/hard"),
    }
    (yard, ways)
}

fn assert_untouched(yard: &Yard) {
    for file in ["outside.txt", "theirs/c.txt", "notes/.hidden"] {
        assert_eq!(fs::read_to_string(yard.path(file)).unwrap(), "outside", "{file}");
    }
    assert_eq!(fs::read_to_string(yard.path("notes/a.txt")).unwrap(), "inside");
    let mut names: Vec<_> =
        fs::read_dir(yard.path("notes")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".hidden", "a.txt", "fifo", "hard", "last", "middle", "proc", "sub"]);
}

#[test]
fn nothing_leads_out_of_a_root_over_http_and_stdio() {
    let (yard, ways) = trapped();
    let server = yard.serve();
    let mut client = server.client();
    let mut session = Session::start(&yard);
    let mut refused = 0;
    for uri in &ways {
        for method in ["resources/read", "resources/write", "resources/delete", "resources/subscribe"] {
            let params = json!({"uri": uri, "text": "overwritten"});
            let answers = match method {
                // Stateless clients subscribe with a stream; that is below.
                "resources/subscribe" => vec![session.ask(method, params)],
                _ => vec![session.ask(method, params.clone()), ask(&mut client, method, params)],
            };
            for answer in answers {
                assert!(
                    answer.get("result").is_none() && answer["error"]["code"].is_i64(),
                    "{method} {uri:.80}: {answer}"
                );
                assert!(!answer.to_string().contains("root:x:0"), "{answer}");
                refused += 1;
            }
        }
    }
    let filter = json!({"notifications": {"resourceSubscriptions": ways}});
    let (_listener, acknowledged) = listen(&server, filter);
    let honoured = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
    assert!(honoured.as_array().is_none_or(Vec::is_empty), "{honoured}");
    refused += ways.len();
    assert_eq!(refused, ways.len() * 8, "read, write and delete on both, subscribe on each");
    assert_untouched(&yard);
    let listed = session.ask("resources/list", json!({}));
    assert_eq!(addresses(&listed), ["yard://notes/a.txt", "yard://notes/sub/b.txt"]);
    assert_eq!(text(&session.ask("resources/read", json!({"uri": "yard://notes/a.txt"}))), "inside");
}

#[test]
fn the_yard_itself_can_be_read_but_its_state_and_its_secrets_cannot() {
    let yard = Yard::new();
    let toml = "[[resources.root]]\npath = \".\"\nname = \"all\"\n[state]\ndir = \"private\"\n";
    yard.file("toolyard.toml", toml).file("a.txt", "plain");
    let secret = crate::support::planted::secret();
    yard.shell(Kind::Cli, "needs", "echo 1").run(&["call", "needs"]).expect(0);
    assert!(yard.path("private").is_dir());
    yard.file("leak.txt", format!("before {secret} after"))
        .file("leak.bin", [b"\x00\x01", secret.as_bytes()].concat());
    let mut session = Session::start(&yard);
    let listed = session.ask("resources/list", json!({}));
    assert_eq!(
        addresses(&listed),
        [
            "yard://all/a.txt",
            "yard://all/leak.bin",
            "yard://all/leak.txt",
            "yard://all/tools/needs.tool.yaml",
            "yard://all/toolyard.toml"
        ]
    );
    let state: Vec<String> = fs::read_dir(yard.path("private"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!state.is_empty());
    for name in state {
        let answer = session.ask("resources/read", json!({"uri": format!("yard://all/private/{name}")}));
        assert!(answer.get("result").is_none(), "{answer}");
    }
    let read = session.ask("resources/read", json!({"uri": "yard://all/leak.txt"}));
    assert!(
        text(&read).starts_with("before ")
            && text(&read).ends_with(" after")
            && !text(&read).contains(&secret),
        "{read}"
    );
    let read = session.ask("resources/read", json!({"uri": "yard://all/leak.bin"}));
    assert_eq!(read["error"]["data"]["error"]["error_type"], "PermissionError", "{read}");
    // All test files are searched for the secret, and these contain it on purpose.
    for name in ["leak.txt", "leak.bin"] {
        fs::remove_file(yard.path(name)).unwrap();
    }
}
