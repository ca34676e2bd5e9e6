//! Tools with a dialog, as terminal users and HTTP clients see them.

use crate::support::{TIMEOUT, Terminal, Yard, assert_no_survivor, marker, processes_with, signal};
use serde_json::json;
use std::time::Duration;

const ORDER: &str = r#"
import json, sys, time
request = sys.stdin.readline()
def say(**message): print(json.dumps({"$toolyard": message}), flush=True)
say(progress={"percent": 50, "message": "half\x1b[2Jway"})
say(log={"level": "warning", "message": "careful", "logger": "db"})
if "show" in request: time.sleep(1)
properties = {"name": {"type": "string", "title": "Your name"},
              "age": {"type": "integer", "minimum": 0},
              "weight": {"type": "number"},
              "fine": {"type": "boolean", "default": True},
              "color": {"type": "string", "enum": ["red", "green"]}}
say(ask={"id": 1, "elicit": {"message": "Who are you?", "schema": {"type": "object", "properties": properties, "required": ["name", "age", "color"]}}})
print(json.dumps({"data": json.loads(sys.stdin.readline())["$toolyard"]["answer"]}))
"#;

fn yard() -> Yard {
    let yard = Yard::new();
    yard.file("tools/order.py", ORDER).file(
        "tools/order.tool.yaml",
        "id: order\nkind: cli\nentry: [/usr/bin/python3, tools/order.py]\ndialog: true\n",
    );
    yard
}

fn call(yard: &Yard, arguments: &[&str]) -> Terminal {
    let mut command = yard.command();
    command.arg("call").args(arguments);
    Terminal::start(command)
}

#[test]
fn a_terminal_user_sees_progress_and_log_lines_and_fills_in_the_form() {
    let yard = yard();
    let mut terminal = call(&yard, &["order", "show=1", "--json"]);
    terminal.wait_for("warning[db]: careful");
    terminal.wait_for(", 50 % half\\u{1b}[2Jway");
    terminal.wait_for("The tool asks: Who are you?");
    for (prompt, keys) in [
        ("Your name: ", "\n"),
        ("a value is required", ""),
        ("Your name: ", "Ann é\n"),
        ("age, a whole number: ", "many\n"),
        ("expected a whole number", ""),
        ("age, a whole number: ", "-1\n"),
        ("age, a whole number: ", "41\n"),
        ("weight, a number (optional): ", "\n"),
        ("fine, y or n [true]: ", "n\n"),
        ("  2 green", "green\n"),
    ] {
        terminal.wait_for(prompt);
        terminal.press(keys);
    }
    let shown = terminal.shown();
    assert!(!shown.contains("\u{1b}[2J"), "a tool cannot clear the screen: {shown:?}");
    let (code, stdout) = terminal.finish();
    assert_eq!(code, 0, "{shown}");
    let envelope: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let content = json!({"name": "Ann é", "age": 41, "fine": false, "color": "green"});
    assert_eq!(envelope["data"], json!({"id": 1, "result": {"action": "accept", "content": content}}));
}

#[test]
fn a_terminal_user_may_decline_or_cancel() {
    for (keys, action) in [(":decline\n", "decline"), (":cancel\n", "cancel"), ("\x04", "cancel")] {
        let yard = yard();
        let mut terminal = call(&yard, &["order", "--json"]);
        terminal.wait_for("Your name: ");
        terminal.press(keys);
        let (code, stdout) = terminal.finish();
        let envelope: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((code, &envelope["data"]["result"]), (0, &json!({"action": action})), "{keys:?}");
    }
}

#[test]
fn interrupting_a_question_ends_the_call_and_the_tool() {
    let (yard, marker) = (yard(), marker());
    let entry = json!(["/usr/bin/python3", "tools/order.py", marker]);
    yard.file(
        "tools/order.tool.yaml",
        json!({"id": "order", "kind": "cli", "entry": entry, "dialog": true}).to_string(),
    );
    let mut terminal = call(&yard, &["order"]);
    terminal.wait_for("Your name: ");
    assert!(!processes_with(&marker).is_empty());
    signal(terminal.child.id(), libc::SIGINT);
    terminal.wait_for("interrupted; the tool was stopped");
    assert_ne!(terminal.finish().0, 0);
    assert_no_survivor(&marker, Duration::from_secs(2));
}

#[test]
fn a_page_is_shown_and_waited_for() {
    let yard = Yard::new();
    let script = r#"read -r request
        echo '{"$toolyard":{"ask":{"id":"p","elicit_url":{"message":"Log in","url":"https://example.com/in"}}}}'
        read -r answer; printf '{"data":%s}\n' "$answer""#;
    yard.tool(crate::support::Kind::Cli, "login", &["/bin/sh", "-c", script], json!({"dialog": true}));
    let mut terminal = call(&yard, &["login", "--json"]);
    terminal.wait_for("The tool asks: Log in");
    terminal.wait_for("https://example.com/in");
    terminal.wait_for("press Enter");
    terminal.press("\n");
    let (code, stdout) = terminal.finish();
    assert_eq!(code, 0);
    let answer = json!({"$toolyard": {"answer": {"id": "p", "result": {"action": "accept"}}}});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&stdout).unwrap()["data"], answer);
}

#[test]
fn without_a_terminal_and_over_http_no_one_is_asked() {
    let yard = yard();
    let (ran, envelope) = yard.call("order", &json!({}));
    assert_eq!((ran.code, &envelope["data"]["error"]["code"]), (0, &json!("unavailable")), "{ran:?}");
    assert_eq!(ran.stderr, "warning[db]: careful\n", "progress is for terminals");
    let answer = yard.serve().post("order", "{}");
    assert_eq!((answer.status, &answer.json()["body"]["error"]["code"]), (200, &json!("unavailable")));
}

#[test]
fn a_json_rpc_error_is_a_failed_call_elsewhere() {
    let yard = Yard::new();
    let script = r#"read -r request
        echo '{"$toolyard":{"rpc_error":{"code":-32042,"message":"log in first","data":{"a":1}}}}'"#;
    yard.tool(crate::support::Kind::Process, "tool", &["/bin/sh", "-c", script], json!({"dialog": true}));
    let (ran, envelope) = yard.call("tool", &json!({}));
    let error = &envelope["error"];
    assert_eq!((ran.code, &error["error_message"]), (1, &json!("log in first")));
    let rpc = json!({"code": -32042, "message": "log in first", "data": {"a": 1}});
    assert_eq!(error["error_details"]["rpc"], rpc);
    let answer = yard.serve().post("tool", "{}");
    assert_eq!((answer.status, &answer.json()["error"]["details"]["rpc"]), (502, &rpc));
}

#[test]
fn a_caller_over_http_who_leaves_stops_a_tool_that_waits() {
    let (yard, marker) = (Yard::new(), marker());
    let script = r#"echo '{"$toolyard":{"progress":{"percent":1}}}'; sleep 300"#;
    let extra = json!({"dialog": true});
    yard.tool(crate::support::Kind::Cli, "tool", &["/bin/sh", "-c", script, &marker], extra);
    let server = yard.serve();
    let mut client = server.client();
    client.write("POST", "/mcp/tool/tool", &[], b"{}").unwrap();
    crate::support::eventually("the tool runs", TIMEOUT, || !processes_with(&marker).is_empty());
    drop(client);
    assert_no_survivor(&marker, TIMEOUT / 3);
}
