//! A failed run says what the sandbox refused and the line to add to the tool's file; with that line it works.

use crate::support::{Kind, Upstream, Yard};
use serde_json::{Value, json};
use std::fs;

/// The hint of a call that fails.
#[track_caller]
fn hint(yard: &Yard, name: &str) -> String {
    let (ran, envelope) = yard.call(name, &json!({}));
    assert_ne!(ran.code, 0, "{envelope}");
    envelope["error"]["error_details"]["hint"].as_str().unwrap_or_default().to_owned()
}

#[track_caller]
fn succeeds(yard: &Yard, name: &str) -> Value {
    let (ran, envelope) = yard.call(name, &json!({}));
    assert_eq!(ran.code, 0, "{envelope}");
    envelope["data"].clone()
}

/// The line that a hint says to add, which it ends with.
#[track_caller]
fn line(hint: &str, source: &str) -> String {
    let marker = format!("add to {source}: ");
    let (_, line) = hint.split_once(&marker).unwrap_or_else(|| panic!("no line in {hint:?}"));
    line.to_owned()
}

/// A toolpack with the script, without any declaration.
fn pack(yard: &Yard, name: &str, argv: &[&str], more: &str) {
    let text = format!("id: {name}\nkind: cli\nentry: {}\n{more}\n", json!(argv));
    yard.file(&format!("tools/{name}.tool.yaml"), text);
}

#[test]
fn the_proposed_line_makes_the_tool_work() {
    let yard = Yard::without_secret();
    let outside = yard.home().join("models");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("one"), "\"found\"").unwrap();
    let one = outside.join("one").display().to_string();
    fs::create_dir(yard.path("data")).unwrap();
    let sh = |script: &str| ["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()];
    let cases: Vec<(&str, Vec<String>, String)> = vec![
        ("cat", vec!["cat".into(), one.clone()], format!("does not show {one}")),
        (
            "python",
            vec!["python3".into(), "-c".into(), format!("print(open({one:?}).read())")],
            format!("does not show {one}"),
        ),
        (
            "node",
            vec![
                "node".into(),
                "-e".into(),
                format!("console.log(require('fs').readFileSync({one:?}, 'utf8'))"),
            ],
            format!("does not show {one}"),
        ),
        (
            "perl",
            vec!["perl".into(), "-e".into(), format!("open(F, '{one}') or die \"{one}: $!\\n\"; print <F>")],
            format!("does not show {one}"),
        ),
        (
            "ruby",
            vec!["ruby".into(), "-e".into(), format!("puts File.read({one:?})")],
            format!("does not show {one}"),
        ),
        (
            "php",
            vec![
                "php".into(),
                "-r".into(),
                format!("$t = file_get_contents({one:?}); if ($t === false) exit(1); echo $t;"),
            ],
            format!("does not show {one}"),
        ),
        ("touch", sh("touch data/new && echo 1").to_vec(), "does not let this tool write data/new".into()),
        (
            "shell",
            sh("echo 1 >data/new2 && echo 1").to_vec(),
            "does not let this tool write data/new2".into(),
        ),
        ("mkdir", sh("mkdir data/sub && echo 1").to_vec(), "does not let this tool write data/sub".into()),
        ("full", sh("head -c 80000000 /dev/zero >/tmp/big && echo 1").to_vec(), "hold 67108864 bytes".into()),
    ];
    for (name, argv, what) in &cases {
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        pack(&yard, name, &argv, "");
        let hint = hint(&yard, name);
        assert!(hint.contains(what), "{name}: {what}: {hint}");
        pack(&yard, name, &argv, &line(&hint, &format!("tools/{name}.tool.yaml")));
        succeeds(&yard, name);
    }
}

#[test]
fn a_refusal_of_the_proxy_names_the_host_and_the_line() {
    let (listed, other) = (Upstream::json("1"), Upstream::json("2"));
    let yard = Yard::without_secret();
    let script = format!(
        "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{}/').read().decode())",
        other.port
    );
    let file =
        |hosts: &str| pack(&yard, "get", &["python3", "-c", &script], &format!("sandbox: {{{hosts}}}"));
    file(&format!("network: [\"127.0.0.1:{}\"]", listed.port));
    let hint = hint(&yard, "get");
    let line = format!("network: [\"127.0.0.1:{}\", \"127.0.0.1:{}\"]", listed.port, other.port);
    assert!(hint.contains("is not among the hosts this tool may reach"), "{hint}");
    assert!(hint.ends_with(&format!("write under 'sandbox' in tools/get.tool.yaml: {line}")), "{hint}");
    file(&line);
    assert_eq!(succeeds(&yard, "get")["result"], 2);
}

#[test]
fn a_tool_without_a_network_is_told_the_host_to_list() {
    let yard = Yard::without_secret();
    let node = "require('https').get('https://api.example.com/').on('error', (e) => { console.error(e); process.exit(1); })";
    for (name, argv, host) in [
        ("curl", &["curl", "-sS", "https://api.example.com/"][..], "api.example.com"),
        ("node", &["node", "-e", node], "api.example.com"),
        (
            "connect",
            &["python3", "-c", "import sys, socket; s = socket.socket(); s.connect(('192.0.2.1', 80))"],
            "",
        ),
    ] {
        pack(&yard, name, argv, "");
        let hint = hint(&yard, name);
        assert!(hint.starts_with("the sandbox gives this tool no network"), "{name}: {hint}");
        if host.is_empty() {
            assert!(hint.contains("network: [api.example.com]"), "{name}: {hint}");
        } else {
            assert_eq!(
                line(&hint, &format!("tools/{name}.tool.yaml")),
                format!("sandbox: {{network: [{host}]}}")
            );
        }
    }
}

#[test]
fn a_manifest_is_told_the_line_in_json() {
    let yard = Yard::without_secret();
    let outside = yard.home().join("models");
    fs::create_dir(&outside).unwrap();
    let folder = outside.display().to_string();
    yard.tool(Kind::Process, "list", &["ls", &folder], json!({}));
    let hint = hint(&yard, "list");
    assert_eq!(
        line(&hint, "tools/list/tool.json"),
        format!("\"sandbox\": {{\"fs\": {{\"read\": [{folder:?}]}}}}")
    );
}

#[test]
fn what_no_file_can_grant_is_said_without_a_line() {
    let yard = Yard::without_secret();
    let secret = yard.path(".toolyard/secrets").display().to_string();
    for (name, script, why) in [
        ("state", format!("cat {secret}"), "lies in the state folder, which no tool can open"),
        ("tools", "touch tools/new.tool.yaml".to_owned(), "where a tool could give itself permissions"),
        ("mount", "unshare --user true".to_owned(), "only a tool with 'sandbox: none'"),
    ] {
        pack(&yard, name, &["/bin/sh", "-c", &script], "");
        let hint = hint(&yard, name);
        assert!(hint.contains(why) && !hint.contains("add to"), "{name}: {hint}");
    }
}

#[test]
fn failures_of_the_tool_itself_are_not_blamed_on_the_sandbox() {
    let yard = Yard::without_secret();
    for (name, script) in [
        ("missing_in_yard", "cat tools/none"),
        ("missing_in_system", "cat /usr/lib/none"),
        ("missing_at_home", "cat $HOME/none"),
        ("own_error", "echo 'bad input: 17' >&2; exit 1"),
        ("unknown_command", "none-such-program"),
    ] {
        pack(&yard, name, &["/bin/sh", "-c", script], "");
        assert_eq!(hint(&yard, name), "", "{name}");
    }
    // Without a sandbox nothing is refused by it.
    pack(&yard, "bare", &["cat", "/none/such"], "sandbox: none");
    assert_eq!(hint(&yard, "bare"), "");
}

#[test]
fn a_tool_that_answers_with_its_own_error_gets_the_line_too() {
    let yard = Yard::without_secret();
    yard.file("tools/reader.py", "def run():\n    return open('/srv/none/such').read()\n");
    yard.file("tools/reader.tool.yaml", "id: reader\nkind: python\nentry: tools.reader:run\n");
    let hint = hint(&yard, "reader");
    assert_eq!(line(&hint, "tools/reader.tool.yaml"), "sandbox: {fs: {read: [/srv/none/such]}}");
}
