//! Legacy HTTP+SSE, with well-behaved and hostile clients.

use crate::support::{
    Client, Kind, Server, TIMEOUT, Yard, assert_no_survivor, eventually, marker, processes_with,
};
use serde_json::{Value, json};
use std::net::Shutdown;
use std::time::Duration;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// An open stream and the path to POST to.
struct Stream {
    client: Client,
    endpoint: String,
}

impl Stream {
    fn open(server: &Server) -> Stream {
        let mut client = server.client();
        client.write("GET", "/sse", &[], b"").unwrap();
        let head = client.head().unwrap();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        let (name, endpoint) = client.named_event().unwrap().expect("an event");
        assert_eq!(name, "endpoint", "it comes first");
        Stream { client, endpoint }
    }

    fn initialized(server: &Server) -> Stream {
        let mut stream = Stream::open(server);
        let hello = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        stream.send(server, "initialize", hello);
        let answer = stream.client.event().unwrap();
        assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
        stream
    }

    fn send(&self, server: &Server, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = server.client().send("POST", &self.endpoint, &JSON, message.to_string().as_bytes());
        assert_eq!(answer.status, 202, "{answer:?}");
    }
}

#[test]
fn a_stream_says_where_to_post_and_carries_the_answers() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "echo '\"done\"'");
    let server = yard.serve();
    let (mut one, other) = (Stream::initialized(&server), Stream::open(&server));
    let id = one.endpoint.strip_prefix("/messages?sessionId=").unwrap();
    assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "128 bits at least: {id}");
    assert_ne!(one.endpoint, other.endpoint);
    one.send(&server, "tools/call", json!({"name": "tool"}));
    assert_eq!(one.client.event().unwrap()["result"]["content"][0]["text"], "done");
    assert!(!server.stderr().contains(id), "an id is a key, and keys are in no log");
    assert!(yard.records().iter().all(|record| !record.to_string().contains(id)));
}

#[test]
fn what_is_no_message_of_an_open_session_is_refused() {
    let yard = Yard::new();
    let server = yard.serve();
    let stream = Stream::open(&server);
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let guessed = format!("/messages?sessionId={}", "0".repeat(32));
    let twice = format!("{}&sessionId=1", stream.endpoint);
    let large = vec![b' '; (4 << 20) + 1];
    for (method, path, headers, body, status) in [
        ("POST", guessed.as_str(), &JSON[..], &ping[..], 404),
        ("POST", "/messages", &JSON, ping, 400),
        ("POST", "/messages?session=1", &JSON, ping, 400),
        ("POST", &twice, &JSON, ping, 400),
        ("POST", &stream.endpoint, &[("content-type", "text/plain")], ping, 415),
        ("POST", &stream.endpoint, &JSON, &large, 413),
        ("GET", &stream.endpoint, &[], b"", 405),
        ("POST", "/sse", &JSON, ping, 405),
        ("GET", "/sse", &[("accept", "application/json")], b"", 406),
        ("GET", "/sse", &[("origin", "https://evil.example")], b"", 403),
        ("GET", "/sse", &[("host", "evil.example")], b"", 403),
        ("POST", &stream.endpoint, &[JSON[0], ("origin", "https://evil.example")], ping, 403),
    ] {
        let mut client = server.client();
        // The server may close before it has read the whole body.
        let _ = client.write(method, path, headers, body);
        assert_eq!(client.head().unwrap().status, status, "{method} {path} {headers:?}");
    }
}

#[test]
fn the_end_of_the_stream_ends_the_session_and_what_runs_in_it() {
    let (yard, marker) = (Yard::new(), marker());
    yard.tool(Kind::Cli, "hang", &["/bin/sh", "-c", "trap '' TERM; sleep 300", &marker], json!({}));
    let server = yard.serve();
    let stream = Stream::initialized(&server);
    stream.send(&server, "tools/call", json!({"name": "hang"}));
    eventually("the tool runs", TIMEOUT, || !processes_with(&marker).is_empty());
    stream.client.connection().shutdown(Shutdown::Both).unwrap();
    assert_no_survivor(&marker, Duration::from_secs(1));
    let answer = server.client().send("POST", &stream.endpoint, &JSON, b"{}");
    assert_eq!(answer.status, 404, "the session is over");
}

#[test]
fn a_reader_that_stops_reading_is_cut_and_costs_little_memory() {
    let yard = Yard::new();
    yard.file(
        "toolyard.toml",
        "[server]\nmax_queued_bytes = 1000000\nstalled = \"3s\"\n[builtin]\necho = true\n",
    );
    let server = yard.serve();
    let stream = Stream::initialized(&server);
    let filler = "x".repeat(60_000);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "yard.echo", "arguments": {"message": filler}}})
    .to_string();
    let before = server.peak_memory_kb();
    // Nothing is read from here on. Every response is over 60 kB; POSTs wait when the queue is full.
    let posted = std::thread::scope(|scope| {
        let post = || {
            let mut posted = 0;
            while server.client().send("POST", &stream.endpoint, &JSON, call.as_bytes()).status == 202 {
                posted += 1;
            }
            posted
        };
        let posting: Vec<_> = (0..8).map(|_| scope.spawn(post)).collect();
        assert_eq!(server.get("/healthz").status, 200, "others are served meanwhile");
        posting.into_iter().map(|posting| posting.join().unwrap()).sum::<i32>()
    });
    let rise = server.peak_memory_kb() - before;
    eprintln!("{posted} calls of a client that reads nothing: memory rose by {rise} kB, then it was cut");
    assert!(posted > 16, "only {posted} calls were taken: that is no backlog");
    assert!(rise < 32 * 1024, "memory rose by {rise} kB");
}

#[test]
fn a_stop_signal_lets_calls_finish_and_ends_the_stream_in_order() {
    let (yard, marker) = (Yard::new(), marker());
    yard.tool(Kind::Cli, "slow", &["/bin/sh", "-c", "sleep 1; echo '\"done\"'", &marker], json!({}));
    let server = yard.serve();
    let (mut idle, mut busy) = (Stream::initialized(&server), Stream::initialized(&server));
    busy.send(&server, "tools/call", json!({"name": "slow"}));
    eventually("the call runs", TIMEOUT, || !processes_with(&marker).is_empty());
    let code = std::thread::spawn(move || server.stop());
    assert!(idle.client.named_event().unwrap().is_none(), "the stream has an end");
    assert_eq!(busy.client.event().unwrap()["result"]["content"][0]["text"], "done");
    assert!(busy.client.named_event().unwrap().is_none());
    assert_eq!(code.join().unwrap(), 0);
}
