//! MCP with the real program: real tools, clients that disconnect, signals.

use crate::support::{
    Client, Kind, TIMEOUT, Yard, assert_no_survivor, eventually, marker, processes_with, signal,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// A request of revision 2026-07-28.
pub fn stateless(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

pub fn post(client: &mut Client, headers: &[(&str, &str)], body: &Value) {
    let mut all =
        vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    all.extend(headers);
    client.write("POST", "/mcp", &all, body.to_string().as_bytes()).unwrap();
}

fn post_stateless(client: &mut Client, method: &str, params: Value) {
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", &name)];
    post(client, &headers[..if name.is_empty() { 2 } else { 3 }], &stateless(method, params));
}

pub fn initialize() -> Value {
    let client = json!({"name": "t", "version": "1"});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
           "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}})
}

/// A server with a tool that hangs.
fn hanging() -> (Yard, String) {
    let (yard, marker) = (Yard::new(), marker());
    yard.tool(Kind::Cli, "hang", &["/bin/sh", "-c", "trap '' TERM; sleep 300", &marker], json!({}));
    (yard, marker)
}

#[test]
fn a_stateless_client_that_goes_away_takes_its_tool_with_it() {
    let (yard, marker) = hanging();
    let server = yard.serve();
    let mut client = server.client();
    post_stateless(&mut client, "tools/call", json!({"name": "hang"}));
    eventually("the call runs", TIMEOUT, || !processes_with(&marker).is_empty());
    drop(client);
    assert_no_survivor(&marker, Duration::from_secs(1));
    let end = |record: &Value| record["kind"] == "end" && record["error"] == "cancelled";
    eventually("the audit log says so", TIMEOUT, || yard.records().iter().any(end));
    let begin = yard.records().into_iter().find(|record| record["kind"] == "begin").unwrap();
    assert_eq!(begin["edge"], "mcp", "{begin}");
}

#[test]
fn a_session_that_ends_takes_its_tools_with_it() {
    let (yard, marker) = hanging();
    let server = yard.serve();
    let (mut client, mut other) = (server.client(), server.client());
    post(&mut client, &[], &initialize());
    let session = client.read().unwrap().header("mcp-session-id").unwrap().to_owned();
    let headers = [("mcp-session-id", session.as_str())];
    post(
        &mut client,
        &headers,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hang"}}),
    );
    eventually("the call runs", TIMEOUT, || !processes_with(&marker).is_empty());
    // Closing a connection does not end the session.
    drop(client);
    std::thread::sleep(Duration::from_millis(500));
    assert!(!processes_with(&marker).is_empty());
    other.write("DELETE", "/mcp", &headers, b"").unwrap();
    assert_eq!(other.head().unwrap().status, 204);
    assert_no_survivor(&marker, Duration::from_secs(1));
}

#[test]
fn what_a_tool_says_about_its_result_reaches_every_client() {
    let yard = Yard::new();
    let answer = json!({"content": [{"type": "text", "text": "no"}], "isError": true,
                        "structuredContent": {"line": 7}, "_meta": {"vendor/cost": 3}});
    yard.shell(Kind::Cli, "tool", &format!("echo '{answer}'"));
    let server = yard.serve();
    let mut client = server.client();
    post_stateless(&mut client, "tools/call", json!({"name": "tool"}));
    let mut results = vec![("2026-07-28", client.read().unwrap().json()["result"].clone())];
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut hello = initialize();
        hello["params"]["protocolVersion"] = json!(revision);
        post(&mut client, &[], &hello);
        let session = client.read().unwrap().header("mcp-session-id").unwrap().to_owned();
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "tool"}});
        post(&mut client, &[("mcp-session-id", &session)], &call);
        results.push((revision, client.read().unwrap().json()["result"].clone()));
    }
    for (revision, result) in results {
        assert_eq!(
            (&result["isError"], &result["_meta"]["vendor/cost"]),
            (&json!(true), &json!(3)),
            "{revision}"
        );
        let structured = (revision >= "2025-06-18").then(|| json!({"line": 7}));
        assert_eq!(result.get("structuredContent"), structured.as_ref(), "{revision}: {result}");
    }
}

#[test]
fn open_streams_and_running_calls_do_not_outlive_the_server() {
    let (yard, marker) = hanging();
    yard.file("toolyard.toml", "[server]\ndrain = \"300ms\"\n");
    let mut server = yard.serve();
    let (mut client, mut listener) = (server.client(), server.client());
    post_stateless(
        &mut listener,
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    assert_eq!(listener.head().unwrap().header("content-type"), Some("text/event-stream"));
    assert_eq!(listener.event().unwrap()["method"], "notifications/subscriptions/acknowledged");
    post(&mut client, &[], &initialize());
    let session = client.read().unwrap().header("mcp-session-id").unwrap().to_owned();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hang"}});
    post(&mut client, &[("mcp-session-id", &session)], &call);
    eventually("the call runs", TIMEOUT, || !processes_with(&marker).is_empty());
    signal(server.pid(), libc::SIGTERM);
    assert_eq!(listener.event().unwrap()["result"]["resultType"], "complete", "the stream ends in order");
    assert_eq!(server.wait(TIMEOUT), 0);
    assert_no_survivor(&marker, Duration::from_secs(1));
    let records = yard.records();
    assert!(
        records.iter().any(|record| record["kind"] == "end" && record["error"] == "cancelled"),
        "{records:?}"
    );
    assert_eq!(records.last().unwrap()["kind"], "close");
}

#[test]
fn an_idle_stream_does_not_delay_the_stop() {
    let yard = Yard::new();
    let mut server = yard.serve();
    let mut listener = server.client();
    post_stateless(
        &mut listener,
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    listener.head().unwrap();
    listener.event().unwrap();
    let started = Instant::now();
    signal(server.pid(), libc::SIGTERM);
    assert_eq!(server.wait(TIMEOUT), 0);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn a_changed_file_is_a_changed_list() {
    let yard = Yard::new();
    let server = yard.serve();
    let mut listener = server.client();
    post_stateless(
        &mut listener,
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    listener.head().unwrap();
    listener.event().unwrap();
    yard.shell(Kind::Cli, "fresh", "echo 1");
    assert_eq!(listener.event().unwrap()["method"], "notifications/tools/list_changed");
    let mut client = server.client();
    post_stateless(&mut client, "tools/list", json!({}));
    assert_eq!(client.read().unwrap().json()["result"]["tools"][0]["name"], "fresh");
}

/// `toolyard stdio`.
pub struct Pipes {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Pipes {
    pub fn start(yard: &Yard) -> Pipes {
        let mut command = yard.command();
        command.arg("stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()).lines());
        Pipes { child, input, output }
    }

    pub fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    pub fn read(&mut self) -> Value {
        serde_json::from_str(&self.output.next().expect("a line").unwrap()).unwrap()
    }

    fn wait(&mut self) -> i32 {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn pipes_carry_messages_and_nothing_else() {
    let yard = Yard::new();
    // A broken file is reported on stderr, not between the messages.
    yard.file("tools/broken.tool.yaml", "id: [");
    yard.shell(Kind::Cli, "chatty", "echo noise >&2; echo '{\"n\": 12345678901234567890}'");
    let mut pipes = Pipes::start(&yard);
    pipes.send(&initialize());
    assert_eq!(pipes.read()["result"]["serverInfo"]["name"], "toolyard");
    pipes.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    pipes.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "chatty"}}));
    let answer = pipes.read();
    assert_eq!(answer["result"]["content"][0]["text"], "{\"n\": 12345678901234567890}", "{answer}");
    pipes.send(&stateless("tools/call", json!({"name": "chatty"})));
    assert_eq!(pipes.read()["result"]["resultType"], "complete");
    drop(pipes.input.take());
    assert_eq!(pipes.wait(), 0);
    assert!(pipes.output.next().is_none());
}

#[test]
fn the_end_of_the_input_and_a_signal_stop_everything() {
    for by_signal in [false, true] {
        let (yard, marker) = hanging();
        let mut pipes = Pipes::start(&yard);
        pipes.send(&stateless("tools/call", json!({"name": "hang"})));
        eventually("the call runs", TIMEOUT, || !processes_with(&marker).is_empty());
        if by_signal {
            signal(pipes.child.id(), libc::SIGTERM);
        } else {
            drop(pipes.input.take());
        }
        assert_eq!(pipes.wait(), 0);
        assert_no_survivor(&marker, Duration::from_secs(1));
        assert_eq!(yard.records().last().unwrap()["kind"], "close", "the audit log was closed in order");
    }
}
