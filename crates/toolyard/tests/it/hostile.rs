//! Hostile input on the default configuration: each is refused with the right error and costs little memory.

use crate::mcp::{initialize, post};
use crate::support::{
    Client, Kind, Server, TIMEOUT, Yard, assert_no_survivor, eventually, marker, processes_with,
};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;

/// A server with the default configuration.
fn serve() -> (Yard, Server) {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "echo 1");
    let server = yard.serve();
    assert_eq!(server.post("tool", "{}").status, 200);
    (yard, server)
}

const MCP: [(&str, &str); 2] =
    [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];

/// Growth of the peak memory during `act`, in kilobytes.
fn memory_growth(what: &str, server: &Server, act: impl FnOnce()) -> u64 {
    let before = server.peak_memory_kb();
    act();
    let memory_growth = server.peak_memory_kb() - before;
    eprintln!("{what}: memory rose by {memory_growth} kB");
    memory_growth
}

#[test]
fn bodies_over_four_mebibytes_are_413_and_memory_stays_flat() {
    let (_yard, server) = serve();
    let large = vec![b' '; (4 << 20) + 1];
    let memory_growth = memory_growth("40 bodies over the bound", &server, || {
        for _ in 0..20 {
            for path in ["/mcp", "/mcp/tool/tool"] {
                let mut client = server.client();
                // The server may close before it has read the whole body.
                let _ = client.write("POST", path, &MCP, &large);
                assert_eq!(client.head().unwrap().status, 413, "{path}");
            }
        }
    });
    assert!(memory_growth < 16 * 1024, "memory rose by {memory_growth} kB");
    assert_eq!(server.post("tool", "{}").status, 200);
}

#[test]
fn a_body_announced_and_never_sent_holds_no_memory() {
    let (_yard, server) = serve();
    let mut waiting = Vec::new();
    let memory_growth = memory_growth("500 bodies announced and not sent", &server, || {
        for _ in 0..500 {
            let mut stream = server.client().connection();
            let head = "POST /mcp/tool/tool HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4194304\r\n\r\n{";
            stream.write_all(head.as_bytes()).unwrap();
            waiting.push(stream);
        }
        assert_eq!(server.post("tool", "{}").status, 200, "others are served");
    });
    assert!(
        memory_growth < 32 * 1024,
        "memory rose by {memory_growth} kB, which is {} kB each",
        memory_growth / 500
    );
}

#[test]
fn what_is_no_message_is_refused_with_its_code_and_costs_no_memory() {
    let (_yard, server) = serve();
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}1{}}}"#,
        "[".repeat(1_000_000),
        "]".repeat(1_000_000)
    );
    let endless = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}"#, "{\"a\":".repeat(800_000));
    let memory_growth = memory_growth("hostile messages", &server, || {
        for (what, body, code) in [
            ("a million brackets", deep.as_bytes(), -32700),
            ("objects that never end", endless.as_bytes(), -32700),
            ("no UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}", -32700),
            ("a float as id", br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
            ("null as id", br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
            ("an object as id", br#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#, -32600),
        ] {
            let answer = server.client().send("POST", "/mcp", &MCP, body);
            let found = (answer.status, answer.json()["error"]["code"].as_i64());
            assert_eq!(found, (400, Some(code)), "{what}: {}", String::from_utf8_lossy(&answer.body));
        }
        for body in [deep.as_bytes(), b"{\"a\":\"\xff\"}"] {
            assert_eq!(server.post("tool", body).status, 400);
        }
    });
    assert!(memory_growth < 24 * 1024, "memory rose by {memory_growth} kB");
}

#[test]
fn one_id_in_flight_five_times_is_answered_five_times() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "nap", "sleep 1; echo 1");
    let server = yard.serve();
    let session = session(&server);
    // Each is a separate call with its own response.
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "nap"}});
    let mut clients: Vec<Client> = (0..5).map(|_| server.client()).collect();
    let memory_growth = memory_growth("one id five times", &server, || {
        for client in &mut clients {
            let headers = [MCP[0], ("accept", "application/json"), ("mcp-session-id", session.as_str())];
            client.write("POST", "/mcp", &headers, call.to_string().as_bytes()).unwrap();
        }
        for client in &mut clients {
            let answer = client.read().unwrap().json();
            assert_eq!(answer["id"], 7, "{answer}");
            assert_eq!(answer["result"]["structuredContent"]["result"], 1, "{answer}");
        }
    });
    assert!(memory_growth < 16 * 1024, "memory rose by {memory_growth} kB");
}

#[test]
fn ten_thousand_idle_sessions_take_ten_kilobytes_each_at_most() {
    let (_yard, server) = serve();
    let mut client = server.client();
    let hello: Value = initialize();
    let one = |client: &mut Client| {
        post(client, &[], &hello);
        client.read().unwrap().header("mcp-session-id").unwrap().to_owned()
    };
    let first = one(&mut client);
    let before = server.memory_kb();
    for _ in 0..10_000 {
        assert_ne!(one(&mut client), first);
    }
    let each = server.memory_kb().saturating_sub(before) * 1024 / 10_000;
    eprintln!("an idle session takes {each} bytes");
    assert!(each <= 10 * 1024, "{each} bytes each");
    post(&mut client, &[("mcp-session-id", &first)], &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert_eq!(client.read().unwrap().json()["result"], json!({}), "the first of them is still there");
    assert_eq!(server.post("tool", "{}").status, 200);
}

#[test]
fn foreign_hosts_and_origins_are_403_and_cost_no_memory() {
    let (yard, server) = serve();
    let local = format!("localhost:{}", server.address.rsplit_once(':').unwrap().1);
    let memory_growth = memory_growth("600 requests of strangers", &server, || {
        for _ in 0..100 {
            for headers in
                [[("host", "evil.example"), MCP[0]], [("host", &local), ("origin", "https://evil.example")]]
            {
                for path in ["/mcp", "/mcp/tool/tool", "/messages?sessionId=x"] {
                    assert_eq!(server.client().send("POST", path, &headers, b"{}").status, 403, "{path}");
                }
            }
        }
    });
    assert!(memory_growth < 16 * 1024, "memory rose by {memory_growth} kB");
    let begun = yard.records().iter().filter(|record| record["kind"] == "begin").count();
    assert_eq!(begun, 1, "nothing of theirs ran");
}

#[test]
fn the_tools_of_clients_that_went_away_are_dead_within_a_second() {
    let (yard, marker) = (Yard::new(), marker());
    yard.tool(Kind::Cli, "hang", &["/bin/sh", "-c", "trap '' TERM; sleep 300", &marker], json!({}));
    let server = yard.serve();
    let headers = [
        MCP[0],
        MCP[1],
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "hang"),
    ];
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}});
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hang", "_meta": meta}});
    let memory_growth = memory_growth("ten clients that went away", &server, || {
        for _ in 0..5 {
            let (mut stateless, mut plain) = (server.client(), server.client());
            stateless.write("POST", "/mcp", &headers, call.to_string().as_bytes()).unwrap();
            plain.write("POST", "/mcp/tool/hang", &MCP, b"{}").unwrap();
            let shells =
                || processes_with(&marker).iter().filter(|process| process.contains("sh -c")).count();
            eventually("both run", TIMEOUT, || shells() >= 2);
            drop((stateless, plain));
            assert_no_survivor(&marker, Duration::from_secs(1));
        }
    });
    assert!(memory_growth < 16 * 1024, "memory rose by {memory_growth} kB");
}

fn session(server: &Server) -> String {
    let mut client = server.client();
    post(&mut client, &[], &initialize());
    client.read().unwrap().header("mcp-session-id").unwrap().to_owned()
}
