//! Resource roots: access rights, configuration, listing.

use super::{OPEN, ROOT, Session, addresses, ask, listen, text};
use crate::support::{TIMEOUT, Yard, eventually};
use serde_json::{Value, json};
use std::fs;

#[test]
fn roots_are_read_only_unless_configured_otherwise() {
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

#[test]
fn a_root_that_could_create_tools_or_does_not_exist_is_left_out() {
    for (path, what) in [
        (".", "holds the yard's own files"),
        ("..", "holds the yard's own files"),
        ("tools", "holds the yard's own files"),
        ("tools/sub", "holds the yard's own files"),
        (".toolyard", "lies in the state folder"),
        ("nowhere", "cannot be opened"),
    ] {
        let yard = Yard::new();
        yard.run(&["token"]).expect(0);
        yard.file("tools/sub/x", "").file("notes/a.txt", "1");
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
fn settings_of_roots_are_checked() {
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
    assert!(large["error"]["message"].as_str().unwrap().contains("1001 bytes; the limit is 1000"), "{large}");
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
fn roots_and_the_size_limit_change_while_the_server_runs() {
    let yard = Yard::new();
    yard.file("toolyard.toml", "").file("notes/a.txt", "four").file("more/b.txt", "b");
    let server = yard.serve();
    let mut client = server.client();
    let change = |content: &str, key: &str| {
        let before = server.stderr().len();
        yard.file("toolyard.toml", content);
        let line = format!("toolyard.toml: {key} changed; applied");
        eventually(&line, TIMEOUT, || server.stderr()[before..].contains(&line));
        server.stderr()[before..].to_owned()
    };
    let none = ask(&mut client, "resources/list", json!({}));
    assert_eq!(none["error"]["code"], -32601, "not offered without a resource: {none}");
    change(ROOT, "[resources] root");
    let (mut listener, acknowledged) =
        listen(&server, json!({"notifications": {"resourcesListChanged": true}}));
    assert!(acknowledged["params"].to_string().contains("resourcesListChanged"), "{acknowledged}");
    assert_eq!(addresses(&ask(&mut client, "resources/list", json!({}))), ["yard://notes/a.txt"]);
    let read = |client: &mut _| ask(client, "resources/read", json!({"uri": "yard://notes/a.txt"}));
    assert_eq!(text(&read(&mut client)), "four");
    change(&format!("{ROOT}[limits]\nresource = 3\n"), "[limits] resource");
    let refused = read(&mut client);
    assert!(refused["error"]["message"].as_str().unwrap().contains("the limit is 3"), "{refused}");
    let write = json!({"uri": "yard://notes/a.txt", "text": "new"});
    assert!(ask(&mut client, "resources/write", write.clone())["error"].is_object());
    change(OPEN, "[resources] root");
    assert!(ask(&mut client, "resources/write", write)["result"].is_object());
    let other = ROOT.replace("notes", "more");
    let news = change(&format!("{other}{}", ROOT.replace("notes", "nowhere")), "[resources] root");
    assert!(news.contains("the root 'nowhere' is left out"), "{news}");
    assert_eq!(addresses(&ask(&mut client, "resources/list", json!({}))), ["yard://more/b.txt"]);
    assert!(read(&mut client)["error"].is_object());
    let told = listener.event().unwrap();
    assert_eq!(told["method"], "notifications/resources/list_changed", "{told}");
}
