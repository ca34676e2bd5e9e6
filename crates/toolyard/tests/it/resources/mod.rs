//! Resources with the real program: files of the yard, roots and stored objects, over HTTP, stdio and the
//! command line. Nothing leads out of a root.

mod builtin;
mod changes;
mod escapes;
mod roots;

use crate::mcp::{Pipes, initialize, post, stateless};
use crate::support::{Client, Kind, Server, Yard};
use serde_json::{Value, json};
use std::fs;

const ROOT: &str = "[[resources.root]]\npath = \"notes\"\nname = \"notes\"\n";
const OPEN: &str = "[[resources.root]]\npath = \"notes\"\nname = \"notes\"\nwrite = true\ndelete = true\n";

/// One request of a stateless client, and its whole response.
fn ask(client: &mut Client, method: &str, params: Value) -> Value {
    let name = params["uri"].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    // Addresses that are no valid header value are sent as base64.
    let encoded = format!("=?base64?{}?=", base64(name.as_bytes()));
    if method == "resources/read" {
        headers.push(("mcp-name", &encoded));
    }
    post(client, &headers, &stateless(method, params));
    client.read().unwrap().json()
}

fn base64(bytes: &[u8]) -> String {
    toolyard_protocol::base64::encode(bytes)
}

/// A stateless client's stream of changes, and its acknowledgement.
fn listen(server: &Server, filter: Value) -> (Client, Value) {
    let mut listener = server.client();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    post(&mut listener, &headers, &stateless("subscriptions/listen", filter));
    listener.head().unwrap();
    let acknowledged = listener.event().unwrap();
    (listener, acknowledged)
}

/// A client with a session on stdio.
struct Session {
    pipes: Pipes,
    id: u64,
    /// Notifications that arrived while waiting for a response.
    notifications: Vec<Value>,
}

impl Session {
    fn start(yard: &Yard) -> Session {
        let mut pipes = Pipes::start(yard);
        pipes.send(&initialize());
        let hello = pipes.read();
        assert_eq!(hello["result"]["capabilities"]["resources"]["subscribe"], true, "{hello}");
        pipes.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        Session { pipes, id: 100, notifications: Vec::new() }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        self.pipes.send(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}));
        loop {
            let message = self.pipes.read();
            if message["id"] == self.id {
                return message;
            }
            self.notifications.push(message);
        }
    }

    /// The next notification.
    fn notification(&mut self) -> Value {
        if self.notifications.is_empty() { self.pipes.read() } else { self.notifications.remove(0) }
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
fn invalid_resource_files_are_reported_and_affect_no_other() {
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
        ("f", "uriTemplate: my://{a}{b}\ntext: x\n", "1:14", "variables {a} and {b} need a separator", ""),
        ("g", "uriTemplate: my://x{?q}\ntext: x\n", "1:14", "unsupported operator '?'", ""),
        ("h", "uri: my://h\nfile: ../x\n", "2:7", "'file' cannot be used", "relative to the yard"),
        ("i", "uri: my://i\nbase64: '?'\n", "2:9", "'base64' is not base64", ""),
        ("j", "uriTemplate: my://{a}\nfile: x\n", "2:7", "the same for every URI", "[[resources.root]]"),
        ("k", "uri: nothing\ntext: x\n", "1:6", "it has no scheme", ""),
        (
            "z",
            "uri: my://good\ntext: again\n",
            "",
            "is declared by resources/good.resource.yaml already",
            "another URI",
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
fn batches_read_resources_locally_and_remotely() {
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
    assert!(listed.stdout.contains("yard://notes/a.txt    text/plain  7      a.txt"), "{listed:?}");
    assert_eq!(yard.run(&["resource", "read", "yard://notes/a.txt"]).expect(0).stdout, "inside\n");
    let read = yard.run(&["resource", "read", "yard://notes/a.txt", "--json"]).expect(0).json();
    assert_eq!(
        read,
        json!({"contents": [{"uri": "yard://notes/a.txt", "mimeType": "text/plain", "text": "inside\n"}]})
    );
    let wrote = yard.run(&["resource", "write", "yard://notes/b.bin", "new"]).expect(0);
    assert_eq!(wrote.stderr, "wrote 6 bytes to yard://notes/b.bin\n");
    assert_eq!(fs::read(yard.path("notes/b.bin")).unwrap(), b"\0bytes");
    yard.run(&["resource", "rm", "yard://notes/b.bin"]).expect(0);
    let gone = yard.run(&["resource", "read", "yard://notes/b.bin"]).expect(4);
    assert!(gone.stderr.contains("error[EINVAL]: there is no resource 'yard://notes/b.bin'"), "{gone:?}");
    let gone = yard.run(&["resource", "rm", "yard://notes/b.bin", "--json"]).expect(4).json();
    assert_eq!(gone["error"]["error_type"], "ResourceNotFound");
    let shown = yard.run(&["show", "yard://notes/a.txt"]).expect(0).stdout;
    assert_eq!(shown, "address  yard://notes/a.txt\nname     a.txt\ntype     text/plain\nbytes    7\n");
    let shown = yard.run(&["show", "yard://notes/{+path}", "--json"]).expect(0).json();
    assert_eq!(shown["resourceTemplates"][0]["name"], "notes");
    yard.run(&["show", "yard://notes/none"]).expect(4);
    let out = yard.run(&["resource", "read", "yard://notes/../toolyard.toml"]).expect(3);
    assert!(out.stderr.contains("is not a valid file URI"), "{out:?}");
}
