//! MCP on a WebSocket, with well-behaved and hostile clients.

use crate::support::{
    Frame, Kind, Server, TIMEOUT, WebSocket, Yard, assert_no_survivor, eventually, marker, processes_with,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn call(tool: &str) -> Vec<u8> {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    WebSocket::text(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string())
}

#[track_caller]
fn message(socket: &mut WebSocket) -> Value {
    match socket.read() {
        Frame::Text(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn hanging() -> (Yard, String, Server) {
    let (yard, marker) = (Yard::new(), marker());
    yard.tool(Kind::Cli, "hang", &["/bin/sh", "-c", "trap '' TERM; sleep 300", &marker], json!({}));
    yard.file("toolyard.toml", "[server]\nping = \"500ms\"\n");
    let server = yard.serve();
    (yard, marker, server)
}

#[test]
fn a_handshake_that_is_none_is_refused_with_the_reason() {
    let yard = Yard::new();
    let server = yard.serve();
    for (name, value, status, what) in [
        ("upgrade", "h2c", 426, "Upgrade: websocket"),
        ("connection", "close", 426, "Upgrade: websocket"),
        ("sec-websocket-version", "8", 426, "Sec-WebSocket-Version: 13"),
        ("sec-websocket-protocol", "chat", 400, "subprotocol 'mcp'"),
        ("sec-websocket-key", "short", 400, "16 bytes in base64"),
        ("origin", "https://evil.example", 403, "other origins"),
        ("host", "evil.example", 403, "does not name this machine"),
    ] {
        let mut headers: Vec<_> =
            WebSocket::HEADERS.into_iter().filter(|(known, _)| *known != name).collect();
        headers.push((name, value));
        let answer = server.client().send("GET", "/ws", &headers, b"");
        let body = String::from_utf8(answer.body).unwrap();
        assert!(answer.status == status && body.contains(what), "{name}: {value}: {} {body}", answer.status);
    }
    assert_eq!(server.client().send("POST", "/ws", &WebSocket::HEADERS, b"").status, 426);
}

#[test]
fn broken_frames_end_the_connection_with_their_code() {
    let yard = Yard::new();
    let server = yard.serve();
    let unmasked = b"\x81\x02{}".to_vec();
    let announced = [&b"\x81\xff"[..], &(1u64 << 40).to_be_bytes(), b"mask"].concat();
    let flood = [WebSocket::frame(0x01, b"{"), WebSocket::frame(0x00, b" ").repeat(2000)].concat();
    let long = [WebSocket::frame(0x01, &[b' '; 60_000]), WebSocket::frame(0x00, &[b' '; 60_000]).repeat(100)];
    let before = server.peak_memory_kb();
    for (what, bytes, expected) in [
        ("unmasked", unmasked, 1002),
        ("a reserved bit", WebSocket::frame(0xC1, b"{}"), 1002),
        ("an unknown opcode", WebSocket::frame(0x83, b"{}"), 1002),
        ("a continuation of nothing", WebSocket::frame(0x80, b"{}"), 1002),
        ("a ping in parts", WebSocket::frame(0x09, b""), 1002),
        ("a large ping", WebSocket::frame(0x89, &[0; 126]), 1002),
        ("binary", WebSocket::frame(0x82, b"{}"), 1003),
        ("not UTF-8", WebSocket::text(b"\"\xff\""), 1007),
        ("half a character", WebSocket::text(b"\xc3"), 1007),
        ("many small parts", flood, 1008),
        ("a size that is announced only", announced, 1009),
        ("too large", WebSocket::text(vec![b' '; (4 << 20) + 1]), 1009),
        ("too large in parts", long.concat(), 1009),
    ] {
        let mut socket = WebSocket::connect(&server.address);
        // The server may close before it has read everything.
        let _ = socket.write(&bytes);
        match socket.read() {
            Frame::Close(code, reason) => {
                assert!(code == expected && !reason.is_empty(), "{what}: {code} {reason}")
            }
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(socket.read(), Frame::End, "{what}");
    }
    let rise = server.peak_memory_kb() - before;
    assert!(rise < 16 * 1024, "memory rose by {rise} kB");
    let mut socket = WebSocket::connect(&server.address);
    socket.write(&WebSocket::text("{")).unwrap();
    assert_eq!(message(&mut socket)["error"]["code"], -32700, "broken JSON in a good frame harms nothing");
    socket.write(&WebSocket::frame(0x89, b"are you there")).unwrap();
    assert_eq!(socket.read(), Frame::Pong(b"are you there".to_vec()));
    socket.write(&WebSocket::frame(0x88, &1000u16.to_be_bytes())).unwrap();
    assert_eq!((socket.read(), socket.read()), (Frame::Close(1000, String::new()), Frame::End));
}

#[test]
fn a_client_that_disconnects_cancels_its_calls() {
    let (_yard, marker, server) = hanging();
    let mut socket = WebSocket::connect(&server.address);
    socket.write(&call("hang")).unwrap();
    eventually("the tool runs", TIMEOUT, || !processes_with(&marker).is_empty());
    socket.hang_up();
    assert_no_survivor(&marker, Duration::from_secs(1));
}

#[test]
fn a_client_that_answers_no_ping_is_disconnected() {
    let (_yard, marker, server) = hanging();
    let mut socket = WebSocket::connect(&server.address);
    socket.write(&call("hang")).unwrap();
    eventually("the tool runs", TIMEOUT, || !processes_with(&marker).is_empty());
    let started = Instant::now();
    assert_eq!(socket.read(), Frame::Ping);
    // One pong keeps the connection until the next ping times out.
    socket.write(&WebSocket::frame(0x8A, b"")).unwrap();
    assert_eq!(socket.read(), Frame::Ping);
    assert_eq!(socket.read(), Frame::Close(1008, "a ping was not answered in time".into()));
    let took = started.elapsed();
    assert!((Duration::from_millis(1200)..Duration::from_secs(6)).contains(&took), "{took:?}");
    assert_no_survivor(&marker, Duration::from_secs(1));
}

#[test]
fn a_reader_that_stops_reading_is_cut_and_costs_little_memory() {
    let yard = Yard::new();
    yard.file(
        "toolyard.toml",
        "[server]\nmax_queued_bytes = 1000000\nstalled = \"2s\"\n[builtin]\necho = true\n",
    );
    let server = yard.serve();
    let mut socket = WebSocket::connect(&server.address);
    socket.set_timeouts(TIMEOUT);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}});
    let arguments = json!({"message": "x".repeat(60_000)});
    let params = json!({"name": "yard.echo", "arguments": arguments, "_meta": meta});
    let echo = WebSocket::text(
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string(),
    );
    let before = server.peak_memory_kb();
    let (started, mut sent) = (Instant::now(), 0);
    while socket.write(&echo).is_ok() {
        sent += 1;
        assert!(sent < 100_000, "the server takes everything for ever");
    }
    let rise = server.peak_memory_kb() - before;
    eprintln!(
        "{sent} calls of a client that reads nothing: memory rose by {rise} kB, cut after {:?}",
        started.elapsed()
    );
    assert!(sent > 16, "only {sent} calls were taken: that is no backlog");
    assert!(started.elapsed() < Duration::from_secs(20) && rise < 32 * 1024, "{rise} kB");
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn results_that_are_not_read_stay_within_the_bound() {
    let yard = Yard::new();
    // A short request with a long result: 2 x 400 kB in each response, 80 MB together.
    yard.tool(
        Kind::Cli,
        "large",
        &["/bin/sh", "-c", "printf '\"'; head -c 400000 /dev/zero | tr '\\0' x; printf '\"'"],
        json!({"limits": {"output": 500_000}}),
    );
    yard.file("toolyard.toml", "[server]\nmax_queued_bytes = 8000000\n");
    let server = yard.serve();
    let mut socket = WebSocket::connect(&server.address);
    socket.write(&call("large")).unwrap();
    assert_eq!(message(&mut socket)["id"], 1, "the positive control");
    let before = server.memory_kb();
    for _ in 0..100 {
        socket.write(&call("large")).unwrap();
    }
    // Long enough for the calls to run that may.
    let (started, mut most) = (Instant::now(), 0);
    while started.elapsed() < Duration::from_secs(4) {
        most = most.max(server.memory_kb().saturating_sub(before));
        std::thread::sleep(Duration::from_millis(20));
    }
    // What is read makes room for the rest: nothing is lost.
    for _ in 0..100 {
        assert_eq!(message(&mut socket)["result"]["content"][0]["text"].as_str().unwrap().len(), 400_000);
    }
    eprintln!("100 results of 800 kB that are not read: memory rose by {most} kB");
    assert!(most < 24_000, "memory rose by {most} kB against a bound of 8 MB");
}

#[test]
fn sessions_of_every_kind_share_one_bound() {
    let yard = Yard::new();
    yard.file("toolyard.toml", "[server]\nmax_sessions = 2\n");
    let server = yard.serve();
    let first = WebSocket::connect(&server.address);
    let mut stream = server.client();
    stream.write("GET", "/sse", &[], b"").unwrap();
    assert_eq!(stream.head().unwrap().status, 200);
    let refused = server.client().send("GET", "/ws", &WebSocket::HEADERS, b"");
    assert_eq!(refused.status, 503);
    assert!(String::from_utf8_lossy(&refused.body).contains("too many sessions"), "{refused:?}");
    assert_eq!(server.get("/sse").status, 503);
    first.hang_up();
    eventually("the place is free again", TIMEOUT, || {
        WebSocket::try_connect(&server.address, &WebSocket::HEADERS).0.status == 101
    });
}

#[test]
fn a_client_that_never_sends_anything_is_disconnected() {
    let yard = Yard::new();
    yard.file("toolyard.toml", "[server]\nsession_idle = \"1s\"\n");
    let server = yard.serve();
    let (mut silent, mut speaking) =
        (WebSocket::connect(&server.address), WebSocket::connect(&server.address));
    let mut stream = server.client();
    stream.write("GET", "/sse", &[], b"").unwrap();
    stream.head().unwrap();
    assert_eq!(stream.named_event().unwrap().unwrap().0, "endpoint");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    speaking.write(&WebSocket::text(&ping)).unwrap();
    assert_eq!(message(&mut speaking)["error"]["code"], -32600, "there was no handshake");
    assert_eq!(silent.read(), Frame::Close(1001, "the session has ended".into()));
    assert!(stream.named_event().unwrap().is_none(), "the stream has an end");
    speaking.write(&WebSocket::text(&ping)).unwrap();
    assert_eq!(message(&mut speaking)["id"], 1, "a client that has sent a message stays connected");
}

#[test]
fn a_stop_signal_lets_calls_finish_and_closes_with_1001() {
    let (yard, marker) = (Yard::new(), marker());
    yard.tool(Kind::Cli, "slow", &["/bin/sh", "-c", "sleep 1; echo '\"done\"'", &marker], json!({}));
    let server = yard.serve();
    let (mut idle, mut busy) = (WebSocket::connect(&server.address), WebSocket::connect(&server.address));
    busy.write(&call("slow")).unwrap();
    eventually("the call runs", TIMEOUT, || !processes_with(&marker).is_empty());
    let code = std::thread::spawn(move || server.stop());
    let gone = || Frame::Close(1001, "the server is shutting down".into());
    assert_eq!((idle.read(), idle.read()), (gone(), Frame::End));
    assert_eq!(message(&mut busy)["result"]["content"][0]["text"], "done");
    assert_eq!((busy.read(), busy.read()), (gone(), Frame::End));
    assert_eq!(code.join().unwrap(), 0);
}
