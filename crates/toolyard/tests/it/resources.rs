//! Resources with the real program: files of the yard, opened folders and what Toolyard keeps, over HTTP, stdio and the
//! command line. Nothing leads out of a root, whatever is tried.

use crate::mcp::{Pipes, initialize, post, stateless};
use crate::support::{Client, Kind, PATIENCE, Yard, eventually, is_root};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{chown, symlink};

const ROOT: &str = "[[resources.root]]\npath = \"notes\"\nname = \"notes\"\n";
const OPEN: &str = "[[resources.root]]\npath = \"notes\"\nname = \"notes\"\nwrite = true\ndelete = true\n";

/// One request of a stateless client, and its whole answer.
fn ask(client: &mut Client, method: &str, params: Value) -> Value {
    let name = params["uri"].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    // Not every address is a header value; those go as base64.
    let encoded = format!("=?base64?{}?=", base64(name.as_bytes()));
    if method == "resources/read" {
        headers.push(("mcp-name", &encoded));
    }
    post(client, &headers, &stateless(method, params));
    client.read().unwrap().json()
}

fn base64(bytes: &[u8]) -> String {
    toolyard_wire::mcp::base64::encode(bytes)
}

/// A client with a session on stdio.
struct Session {
    pipes: Pipes,
    id: u64,
    /// Notifications that came before the answer to something else.
    told: Vec<Value>,
}

impl Session {
    fn start(yard: &Yard) -> Session {
        let mut pipes = Pipes::start(yard);
        pipes.send(&initialize());
        let hello = pipes.read();
        assert_eq!(hello["result"]["capabilities"]["resources"]["subscribe"], true, "{hello}");
        pipes.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        Session { pipes, id: 100, told: Vec::new() }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        self.pipes.send(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}));
        loop {
            let message = self.pipes.read();
            if message["id"] == self.id {
                return message;
            }
            self.told.push(message);
        }
    }

    /// The next notification.
    fn told(&mut self) -> Value {
        if self.told.is_empty() { self.pipes.read() } else { self.told.remove(0) }
    }
}

fn text(answer: &Value) -> &str {
    answer["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

fn addresses(answer: &Value) -> Vec<&str> {
    let list = answer["result"]["resources"].as_array().unwrap_or_else(|| panic!("{answer}"));
    list.iter().map(|one| one["uri"].as_str().unwrap()).collect()
}

#[test]
fn files_of_the_yard_are_resources_of_every_kind() {
    let yard = Yard::new();
    yard.file("resources/text.resource.yaml", "uri: my://text\ntitle: A text\ntext: 'with {{ braces }}'\n");
    yard.file("resources/file.resource.yaml", "uri: my://file\nfile: docs/guide.md\n")
        .file("docs/guide.md", "# Guide");
    yard.file("resources/bytes.resource.yaml", "uri: my://bytes\nmimeType: image/gif\nbase64: R0lGODlh\n");
    yard.file(
        "resources/made.resource.yaml",
        "uriTemplate: my://made/{who}/{what}\ntool: maker\nmimeType: text/x-made\n",
    );
    yard.file(
        "resources/filled.resource.yaml",
        "uriTemplate: my://filled/{who}\nmimeType: application/json\ntext: '{\"who\": {{ input.who }}}'\n",
    );
    yard.shell(Kind::Cli, "maker", "printf '\"made of %s\"' \"$(tr -d '\"{}' | tr ',' ' ')\"");
    let mut session = Session::start(&yard);
    let list = session.ask("resources/list", json!({}));
    assert_eq!(addresses(&list), ["my://bytes", "my://file", "my://text"]);
    assert_eq!(list["result"]["resources"][1]["mimeType"], "text/markdown");
    let templates = session.ask("resources/templates/list", json!({}));
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "my://filled/{who}");
    let mut read = |uri: &str| session.ask("resources/read", json!({"uri": uri}));
    assert_eq!(text(&read("my://text")), "with {{ braces }}");
    assert_eq!(text(&read("my://file")), "# Guide");
    let bytes = read("my://bytes");
    assert_eq!(
        bytes["result"]["contents"][0],
        json!({"uri": "my://bytes", "mimeType": "image/gif", "blob": "R0lGODlh"})
    );
    assert_eq!(text(&read("my://filled/%22%7D%20x")), "{\"who\": \"\\\"} x\"}", "a value stays a value");
    let made = read("my://made/me/this%20one");
    assert_eq!(made["result"]["contents"][0]["mimeType"], "text/x-made");
    assert_eq!(text(&made), "made of who:me what:this one");
    assert_eq!(read("my://made/me")["error"]["code"], -32002);
    let begin = yard.records().into_iter().find(|record| record["kind"] == "begin").unwrap();
    assert_eq!(
        (&begin["tool"], &begin["edge"]),
        (&json!("tools.maker"), &json!("mcp")),
        "the whole pipeline"
    );
}

#[test]
fn wrong_resource_files_are_reported_and_harm_no_other() {
    let yard = Yard::new();
    for (name, content, place, what, hint) in [
        ("a", "uri: my://a\ntxt: x\n", "2:1", "unknown field 'txt'", "did you mean 'text'?"),
        ("b", "text: x\n", "1:1", "'uri' or 'uriTemplate' is missing", "for example"),
        ("c", "uri: my://c\n", "1:1", "it has no content", "exactly one of"),
        (
            "d",
            "uri: my://d\ntext: x\nfile: y\n",
            "3:7",
            "'text' and 'file' cannot both be given",
            "exactly one of",
        ),
        ("e", "uri: yard://e/x\ntext: x\n", "1:6", "the scheme 'yard' is used by Toolyard itself", ""),
        ("f", "uriTemplate: my://{a}{b}\ntext: x\n", "1:14", "nothing parts {a}", ""),
        ("g", "uriTemplate: my://x{?q}\ntext: x\n", "1:14", "the operator '?'", ""),
        ("h", "uri: my://h\nfile: ../x\n", "2:7", "'file' cannot be used", "relative to the yard"),
        ("i", "uri: my://i\nbase64: '?'\n", "2:9", "'base64' is not base64", ""),
        ("j", "uriTemplate: my://{a}\nfile: x\n", "2:7", "the same for every address", "[[resources.root]]"),
        ("k", "uri: nothing\ntext: x\n", "1:6", "it has no scheme", ""),
        (
            "z",
            "uri: my://good\ntext: again\n",
            "",
            "is declared by resources/good.resource.yaml already",
            "another address",
        ),
    ] {
        yard.file(&format!("resources/{name}.resource.yaml"), content);
        let ran = yard.run(&["check"]).expect(3);
        let file = format!("error: resources/{name}.resource.yaml:{place}");
        let line = ran
            .stdout
            .lines()
            .find(|line| line.starts_with(&file))
            .unwrap_or_else(|| panic!("{file}: {ran:?}"));
        assert!(line.contains(what) && line.contains(hint), "{line}");
        yard.file("resources/good.resource.yaml", "uri: my://good\ntext: good\n");
        let read = yard.run(&["resource", "read", "my://good"]).expect(0);
        assert_eq!(read.stdout, "good");
    }
    let checked = yard.run(&["check", "--json"]).expect(3).json();
    assert_eq!(checked[0]["file"], "resources/a.resource.yaml");
}

#[test]
fn changes_are_told_and_only_to_those_who_watch() {
    let yard = Yard::new();
    yard.file("toolyard.toml", ROOT).file("notes/a.txt", "1").file("notes/b.txt", "1").file("guide.md", "1");
    yard.file("resources/guide.resource.yaml", "uri: my://guide\nfile: guide.md\n");
    let mut session = Session::start(&yard);
    for uri in ["yard://notes/a.txt", "my://guide"] {
        assert_eq!(session.ask("resources/subscribe", json!({"uri": uri}))["result"], json!({}), "{uri}");
    }
    let updated = |uri: &str| json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
    yard.file("notes/b.txt", "2").file("notes/a.txt", "2");
    assert_eq!(session.told(), updated("yard://notes/a.txt"));
    yard.file("guide.md", "2");
    assert_eq!(session.told(), updated("my://guide"));
    yard.file("resources/guide.resource.yaml", "uri: my://guide\nfile: other.md\n").file("other.md", "1");
    assert_eq!(session.told(), updated("my://guide"), "its own file changed");
    std::thread::sleep(std::time::Duration::from_millis(300));
    while !session.told.is_empty() {
        session.told();
    }
    // A file that came after the declaration may have been told of once more.
    assert_eq!(text(&session.ask("resources/read", json!({"uri": "my://guide"}))), "1");
    session.told.clear();
    yard.file("resources/fresh.resource.yaml", "uri: my://fresh\ntext: x\n");
    let listed = json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"});
    assert_eq!(session.told(), listed);
    assert_eq!(text(&session.ask("resources/read", json!({"uri": "my://fresh"}))), "x");
    session.ask("resources/unsubscribe", json!({"uri": "yard://notes/a.txt"}));
    yard.file("notes/a.txt", "3");
    std::thread::sleep(std::time::Duration::from_millis(500));
    session.ask("ping", json!({}));
    assert!(session.told.is_empty(), "{:?}", session.told);
}

#[test]
fn a_stateless_client_hears_of_changes_on_its_stream() {
    let yard = Yard::new();
    yard.file("toolyard.toml", ROOT).file("notes/a.txt", "1");
    let server = yard.serve();
    let mut listener = server.client();
    let filter = json!({"notifications": {"resourcesListChanged": true,
        "resourceSubscriptions": ["yard://notes/a.txt", "yard://notes/../toolyard.toml", "yard://notes/none"]}});
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    post(&mut listener, &headers, &stateless("subscriptions/listen", filter));
    listener.head().unwrap();
    let acknowledged = listener.event().unwrap();
    let honoured = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*honoured, json!(["yard://notes/a.txt"]), "{acknowledged}");
    yard.file("notes/a.txt", "2");
    let told = listener.event().unwrap();
    assert_eq!(
        (&told["method"], &told["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("yard://notes/a.txt"))
    );
    yard.file("resources/new.resource.yaml", "uri: my://new\ntext: x\n");
    assert_eq!(listener.event().unwrap()["method"], "notifications/resources/list_changed");
}

#[test]
fn roots_are_read_only_unless_they_say_otherwise() {
    let yard = Yard::new();
    yard.file("toolyard.toml", ROOT).file("notes/a.txt", "old");
    let server = yard.serve();
    let mut client = server.client();
    let write = json!({"uri": "yard://notes/a.txt", "text": "new"});
    for (method, params) in
        [("resources/write", &write), ("resources/delete", &json!({"uri": "yard://notes/a.txt"}))]
    {
        let refused = ask(&mut client, method, params.clone());
        assert_eq!(refused["error"]["data"]["error"]["error_type"], "PermissionError", "{refused}");
    }
    assert_eq!(fs::read_to_string(yard.path("notes/a.txt")).unwrap(), "old");
    drop(server);
    yard.file("toolyard.toml", OPEN);
    let server = yard.serve();
    let mut client = server.client();
    let done = ask(&mut client, "resources/write", write);
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    let blob = json!({"uri": "yard://notes/deep/er/x.bin", "blob": "AAEC"});
    ask(&mut client, "resources/write", blob);
    assert_eq!(fs::read(yard.path("notes/deep/er/x.bin")).unwrap(), [0, 1, 2]);
    let read = ask(&mut client, "resources/read", json!({"uri": "yard://notes/deep/er/x.bin"}));
    assert_eq!(read["result"]["contents"][0]["blob"], "AAEC", "{read}");
    assert_eq!(text(&ask(&mut client, "resources/read", json!({"uri": "yard://notes/a.txt"}))), "new");
    ask(&mut client, "resources/delete", json!({"uri": "yard://notes/a.txt"}));
    assert!(!yard.path("notes/a.txt").exists());
    let gone = ask(&mut client, "resources/delete", json!({"uri": "yard://notes/a.txt"}));
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    let acts: Vec<String> = yard
        .records()
        .iter()
        .filter(|record| record["kind"] == "begin")
        .map(|record| format!("{} {}", record["tool"].as_str().unwrap(), record["arguments"]))
        .collect();
    assert_eq!(acts.len(), 6, "{acts:#?}");
    assert!(
        acts[3].starts_with("resource.write") && acts[3].contains("yard://notes/deep/er/x.bin"),
        "{acts:#?}"
    );
    assert!(
        acts.iter().all(|act| !act.contains("AAEC") && !act.contains("new")),
        "what was written is not recorded"
    );
}

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

/// A root with everything in it that could lead out.
fn trapped() -> (Yard, Vec<String>) {
    let yard = Yard::new();
    yard.file("toolyard.toml", OPEN).file("outside.txt", "outside").file("notes/a.txt", "inside");
    yard.file("notes/.hidden", "outside").file("notes/sub/b.txt", "inside").file("theirs/c.txt", "outside");
    let link = |target: &str, name: &str| symlink(target, yard.path("notes").join(name)).unwrap();
    link("../outside.txt", "last");
    link("..", "middle");
    link("../..", "sub/middle");
    link("/proc", "proc");
    let fifo = std::ffi::CString::new(yard.path("notes/fifo").to_str().unwrap()).unwrap();
    // SAFETY: the name ends in NUL.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o666) }, 0);
    let mut ways: Vec<String> = WAYS_OUT.iter().map(|way| way.to_string()).collect();
    ways.push(format!("yard://notes/{}", "a".repeat(5000)));
    ways.push(format!("yard://notes/{}x", "a/".repeat(2000)));
    fs::hard_link(yard.path("theirs/c.txt"), yard.path("notes/hard")).unwrap();
    match is_root() {
        true => chown(yard.path("theirs/c.txt"), Some(12_345), None).unwrap(),
        // Only root can give a file to someone else.
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
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    let filter = json!({"notifications": {"resourceSubscriptions": ways}});
    let mut listener = server.client();
    post(&mut listener, &headers, &stateless("subscriptions/listen", filter));
    listener.head().unwrap();
    let honoured = listener.event().unwrap()["params"]["notifications"]["resourceSubscriptions"].clone();
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
    let toml = "[[resources.root]]\npath = \".\"\nname = \"all\"\n[state]\ndir = \"kept\"\n";
    yard.file("toolyard.toml", toml).file("a.txt", "plain");
    let secret = crate::support::planted::secret();
    yard.shell(Kind::Cli, "needs", "echo 1").run(&["call", "needs"]).expect(0);
    assert!(yard.path("kept").is_dir());
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
    let state: Vec<String> = fs::read_dir(yard.path("kept"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!state.is_empty());
    for name in state {
        let answer = session.ask("resources/read", json!({"uri": format!("yard://all/kept/{name}")}));
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
}

#[test]
fn a_root_that_could_make_tools_is_left_out_and_so_is_one_that_is_not_there() {
    for (path, what) in [
        (".", "holds the yard's own files"),
        ("..", "holds the yard's own files"),
        ("tools", "holds the yard's own files"),
        ("tools/sub", "holds the yard's own files"),
        (".toolyard", "lies in the state folder"),
        ("nowhere", "cannot be opened"),
    ] {
        let yard = Yard::new();
        yard.file("tools/sub/x", "").file(".toolyard/x", "").file("notes/a.txt", "1");
        let bad = OPEN.replace("\"notes\"", &format!("{path:?}")).replacen(
            &format!("name = {path:?}"),
            "name = \"bad\"",
            1,
        );
        yard.file("toolyard.toml", format!("{ROOT}{bad}"));
        let ran = yard.run(&["check"]).expect(3);
        assert!(
            ran.stdout.contains("the root 'bad' is left out") && ran.stdout.contains(what),
            "{path}: {ran:?}"
        );
        let listed = yard.run(&["resource", "list", "--json"]).expect(0).json();
        assert_eq!(listed["resources"].as_array().unwrap().len(), 1, "{path}: {listed}");
    }
}

#[test]
fn roots_are_configured_in_words_that_are_checked() {
    for (content, what, hint) in [
        ("[[resources.root]]\npath = \"x\"\n", "'resources.root.name' is missing", "yard://NAME/path"),
        ("[[resources.root]]\nname = \"x\"\n", "'resources.root.path' is missing", "relative to the yard"),
        (
            "[[resources.root]]\npath = \"x\"\nname = \"A b\"\n",
            "'resources.root.name' is 'A b'",
            "lower-case",
        ),
        (
            "[[resources.root]]\npath = \"x\"\nname = \"x\"\nwrit = true\n",
            "unknown field 'resources.root.writ'",
            "'resources.root.write'",
        ),
        ("[resources.root]\npath = \"x\"\n", "'resources.root' must be a list of tables", ""),
        (
            "[[resources.root]]\npath = \"x\"\nname = \"x\"\n[[resources.root]]\npath = \"y\"\nname = \"x\"\n",
            "two roots have the name 'x'",
            "its own",
        ),
        ("[limits]\nresource = 0\n", "'limits.resource' must be a whole number", ""),
    ] {
        let yard = Yard::new();
        yard.file("toolyard.toml", content);
        let ran = yard.run(&["resource", "list"]).expect(3);
        assert!(ran.stderr.contains(what) && ran.stderr.contains(hint), "{content}: {ran:?}");
    }
}

#[test]
fn large_lists_come_in_pages_and_large_files_not_at_all() {
    let yard = Yard::new();
    yard.file("toolyard.toml", format!("[limits]\nresource = 1000\n{ROOT}"));
    for n in 0..450 {
        yard.file(&format!("notes/{}/{n:03}.txt", n / 100), "x");
    }
    yard.file("notes/large.txt", "x".repeat(1001))
        .file("resources/one.resource.yaml", "uri: my://one\ntext: x\n");
    let mut session = Session::start(&yard);
    let (mut seen, mut pages, mut cursor) = (Vec::new(), 0, None);
    loop {
        let page = session
            .ask("resources/list", cursor.map_or(json!({}), |cursor: Value| json!({"cursor": cursor})));
        seen.extend(addresses(&page).into_iter().map(str::to_owned));
        pages += 1;
        match page["result"].get("nextCursor") {
            Some(next) => cursor = Some(next.clone()),
            None => break,
        }
    }
    assert_eq!((seen.len(), pages), (452, 3));
    assert_eq!(
        (seen[0].as_str(), seen[1].as_str(), seen[451].as_str()),
        ("my://one", "yard://notes/0/000.txt", "yard://notes/large.txt")
    );
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 452, "each once");
    for bad in ["x", "9.", "1.nowhere/x", "1.notes/../x", "0.9999", ""] {
        let refused = session.ask("resources/list", json!({"cursor": bad}));
        assert_eq!(refused["error"]["code"], -32602, "{bad}: {refused}");
    }
    let large = session.ask("resources/read", json!({"uri": "yard://notes/large.txt"}));
    assert!(large["error"]["message"].as_str().unwrap().contains("1001 bytes; at most 1000"), "{large}");
    let complete = |session: &mut Session, value: &str| {
        let params = json!({"ref": {"type": "ref/resource", "uri": "yard://notes/{+path}"}, "argument": {"name": "path", "value": value}});
        session.ask("completion/complete", params)["result"]["completion"].clone()
    };
    assert_eq!(complete(&mut session, "")["values"], json!(["0/", "1/", "2/", "3/", "4/", "large.txt"]));
    assert_eq!(complete(&mut session, "4/44")["values"].as_array().unwrap().len(), 10);
    assert_eq!(complete(&mut session, "../")["values"], json!([]));
    let many = complete(&mut session, "0/");
    assert_eq!((many["values"].as_array().unwrap().len(), &many["total"]), (100, &json!(100)), "{many}");
}

#[test]
fn what_toolyard_keeps_is_there_where_its_tools_are() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "quick", "echo 1");
    assert_eq!(yard.run(&["resource", "list", "--json"]).expect(0).json()["resources"], json!([]));
    let gone = yard.run(&["resource", "read", "tool://tools.quick"]).expect(4);
    assert!(gone.stderr.contains("there is no resource 'tool://tools.quick'"), "{gone:?}");
    yard.file("toolyard.toml", "[builtin]\ntools = true\njobs = true\nartifacts = true\n")
        .file("song.txt", "la la");
    let (_, made) = yard.call(
        "artifact.upload",
        &json!({"file_path": "song.txt", "mime_type": "text/plain", "tags": ["demo"]}),
    );
    let artifact = format!("artifact://{}", made["data"]["artifact_id"].as_str().unwrap());
    let mut session = Session::start(&yard);
    let read = session.ask("resources/read", json!({"uri": artifact}));
    assert_eq!((text(&read), &read["result"]["contents"][0]["mimeType"]), ("la la", &json!("text/plain")));
    let spec: Value =
        serde_json::from_str(text(&session.ask("resources/read", json!({"uri": "tool://tools.quick"}))))
            .unwrap();
    assert_eq!((&spec["exposed"], &spec["kind"]), (&json!("quick"), &json!("cli")));
    let listed = session.ask("resources/list", json!({}));
    let all = addresses(&listed);
    let job =
        all.iter().find(|uri| uri.starts_with("job://")).unwrap_or_else(|| panic!("{all:?}")).to_string();
    assert!(all.contains(&artifact.as_str()) && all.contains(&"tool://tools.quick"), "{all:?}");
    let job: Value = serde_json::from_str(text(&session.ask("resources/read", json!({"uri": job})))).unwrap();
    assert_eq!(
        (&job["tool"], &job["state"], &job["outcome"]["status"]),
        (&json!("artifact.upload"), &json!("complete"), &json!("success"))
    );
    for uri in
        ["job://01890a5d-ac96-774b-bcce-b302099a8057", "artifact://x", "tool://none", "job://", "artifact:"]
    {
        let answer = session.ask("resources/read", json!({"uri": uri}));
        assert_eq!(answer["error"]["code"], -32002, "{uri}: {answer}");
    }
    let refused = session.ask("resources/delete", json!({"uri": artifact}));
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("cannot be written or deleted"),
        "{refused}"
    );
    // A tool that changes is an updated resource.
    assert_eq!(session.ask("resources/subscribe", json!({"uri": "tool://tools.quick"}))["result"], json!({}));
    yard.tool(Kind::Cli, "quick", &["echo", "2"], json!({"description": "now with words"}));
    let updated = eventually_told(&mut session, "notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "tool://tools.quick");
}

fn eventually_told(session: &mut Session, method: &str) -> Value {
    loop {
        let told = session.told();
        if told["method"] == method {
            return told;
        }
    }
}

#[test]
fn the_end_of_a_job_is_told_to_who_watches_it() {
    let yard = Yard::new();
    yard.file("toolyard.toml", "[builtin]\njobs = true\n");
    yard.tool(
        Kind::Cli,
        "slow",
        &["sh", "-c", "while ! test -e go; do sleep 0.05; done; echo 5"],
        json!({"timing": "AsyncLong", "sandbox": "none"}),
    );
    let server = yard.serve();
    let mut client = server.client();
    client
        .write(
            "POST",
            "/v1/tools/slow",
            &[("prefer", "respond-async"), ("content-type", "application/json")],
            b"{}",
        )
        .unwrap();
    let started = client.read().unwrap().json();
    let id = started["job"]["id"].as_str().or(started["meta"]["job"]["id"].as_str()).map(str::to_owned);
    let id = id.unwrap_or_else(|| {
        let jobs = server.get("/v1/jobs").json();
        jobs["jobs"][0]["job_id"].as_str().unwrap_or_else(|| panic!("{started} {jobs}")).to_owned()
    });
    let uri = format!("job://{id}");
    let mut listener = server.client();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    let filter = json!({"notifications": {"resourceSubscriptions": [uri]}});
    post(&mut listener, &headers, &stateless("subscriptions/listen", filter));
    listener.head().unwrap();
    listener.event().unwrap();
    yard.file("go", "");
    let told = listener.event().unwrap();
    assert_eq!(told["params"]["uri"], uri.as_str(), "{told}");
    let job: Value =
        serde_json::from_str(text(&ask(&mut client, "resources/read", json!({"uri": uri})))).unwrap();
    assert_eq!(job["state"], "complete", "{job}");
}

#[test]
fn batches_read_resources_here_and_there() {
    let yard = Yard::new();
    yard.file("toolyard.toml", ROOT).file("notes/a.txt", "from a file");
    let batch = json!({"tool_calls": [{"resource_call":
        {"jsonrpc": "2.0", "method": "resources/read", "params": {"uri": "yard://notes/a.txt"}, "id": "1"}}]});
    yard.file("batch.json", batch.to_string());
    let ran = yard.run(&["batch", "batch.json"]).expect(0);
    assert!(ran.stdout.contains("from a file"), "{ran:?}");
    let server = yard.serve();
    let answer = server.client().send(
        "POST",
        "/v1/batch",
        &[("content-type", "application/json")],
        batch.to_string().as_bytes(),
    );
    assert_eq!(answer.status, 200);
    assert!(String::from_utf8_lossy(&answer.body).contains("from a file"), "{answer:?}");
}

#[test]
fn the_command_line_does_what_clients_do() {
    let yard = Yard::new();
    yard.file("toolyard.toml", OPEN).file("notes/a.txt", "inside\n").file("new", "\u{0}bytes");
    let listed = yard.run(&["resource", "list"]).expect(0);
    assert!(listed.stdout.contains("yard://notes/a.txt  text/plain  7      a.txt"), "{listed:?}");
    assert_eq!(yard.run(&["resource", "read", "yard://notes/a.txt"]).expect(0).stdout, "inside\n");
    let read = yard.run(&["resource", "read", "yard://notes/a.txt", "--json"]).expect(0).json();
    assert_eq!(
        read,
        json!({"contents": [{"uri": "yard://notes/a.txt", "mimeType": "text/plain", "text": "inside\n"}]})
    );
    let wrote = yard.run(&["resource", "write", "yard://notes/b.bin", "new"]).expect(0);
    assert_eq!(wrote.stderr, "wrote 6 bytes to yard://notes/b.bin\n");
    assert_eq!(fs::read(yard.path("notes/b.bin")).unwrap(), b"\0bytes");
    yard.run(&["resource", "delete", "yard://notes/b.bin"]).expect(0);
    let gone = yard.run(&["resource", "read", "yard://notes/b.bin"]).expect(4);
    assert!(gone.stderr.contains("error[EINVAL]: there is no resource 'yard://notes/b.bin'"), "{gone:?}");
    let gone = yard.run(&["resource", "delete", "yard://notes/b.bin", "--json"]).expect(4).json();
    assert_eq!(gone["error"]["error_type"], "ResourceNotFound");
    let out = yard.run(&["resource", "read", "yard://notes/../toolyard.toml"]).expect(3);
    assert!(out.stderr.contains("is no address of a file"), "{out:?}");
}

/// A file that is replaced all the time is read whole each time, and each of its watchers hears of it.
#[test]
fn two_watchers_of_one_file_are_each_told_once() {
    let yard = Yard::new();
    yard.file("toolyard.toml", ROOT).file("notes/a.txt", "1");
    let server = yard.serve();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    let filter = json!({"notifications": {"resourcesListChanged": true, "resourceSubscriptions": ["yard://notes/a.txt"]}});
    let mut listeners: Vec<Client> = (0..2)
        .map(|_| {
            let mut listener = server.client();
            post(&mut listener, &headers, &stateless("subscriptions/listen", filter.clone()));
            listener.head().unwrap();
            listener.event().unwrap();
            listener
        })
        .collect();
    yard.file("notes/a.txt", "22");
    for listener in &mut listeners {
        assert_eq!(listener.event().unwrap()["method"], "notifications/resources/updated");
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    yard.file("resources/end.resource.yaml", "uri: my://end\ntext: x\n");
    for listener in &mut listeners {
        assert_eq!(listener.event().unwrap()["method"], "notifications/resources/list_changed", "told twice");
    }
    eventually("the server still answers", PATIENCE, || server.get("/healthz").status == 200);
}
