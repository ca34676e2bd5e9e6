//! Hostile and careless clients: invalid messages and limits.

use crate::client::{Client, request, stateless};
use crate::server::Server;
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

#[tokio::test]
async fn invalid_messages_are_refused_with_the_right_code() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}1{}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    for (body, status, code) in [
        (&b"{"[..], 400, -32700),
        (deep.as_bytes(), 400, -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", 400, -32700),
        (br#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, 400, -32700),
        (br#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#, 400, -32600),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32600),
        (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, 400, -32600),
        (b"[]", 400, -32600),
    ] {
        let answer = client.send("POST", &[], body).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!((answer.status, answer.json()["error"]["code"].as_i64()), (status, Some(code)), "{shown}");
    }
    let body = request(1, "ping", json!({})).to_string();
    let wrong_type = client.send("POST", &[("content-type", "text/plain")], body.as_bytes()).await;
    assert_eq!(wrong_type.status, 415);
    assert_eq!(client.send("POST", &[("accept", "text/html")], body.as_bytes()).await.status, 406);
    assert_eq!(client.send("PUT", &[], body.as_bytes()).await.status, 405);
    let large = vec![b' '; 65 << 10];
    assert_eq!(server.client().await.send("POST", &[], &large).await.status, 413);
}

#[tokio::test]
async fn sessions_are_bounded_in_number_and_time() {
    let server = Server::with(|options| options.max_sessions = 3).await;
    let mut client = server.client().await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(client.initialize("2025-11-25", json!({})).await);
    }
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let refused = client.send("POST", &[], request(0, "initialize", params).to_string().as_bytes()).await;
    assert_eq!(refused.status, 503, "no session is idle long enough to be evicted");
    client.send("DELETE", &[("mcp-session-id", &sessions[0])], b"").await;
    client.initialize("2025-11-25", json!({})).await;
    let short = Server::with(|options| options.session_idle = Duration::from_millis(50)).await;
    let mut client = short.client().await;
    let session = client.initialize("2025-11-25", json!({})).await;
    let ping = request(1, "ping", json!({}));
    let forgotten = async {
        // Idle connections are closed, so each check opens a new one.
        while short.client().await.ask(&session, &ping).await.status != 404 {
            tokio::time::sleep(Duration::from_secs(6)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), forgotten).await.expect("the session is never forgotten");
}

#[tokio::test]
async fn parked_calls_are_bounded_and_the_oldest_is_cancelled() {
    let server = Server::with(|options| options.max_parked = 2).await;
    let mut client = server.client().await;
    let mut states = Vec::new();
    for _ in 0..3 {
        let asked = client
            .call_with(json!({"elicitation": {}}), "tools/call", json!({"name": "ask_name"}))
            .await
            .json();
        states.push(asked["result"]["requestState"].clone());
    }
    for (index, expected) in [(0, false), (1, true), (2, true)] {
        let answer = json!({"action": "accept", "content": {"name": "x"}});
        let params =
            json!({"name": "ask_name", "requestState": states[index], "inputResponses": {"name": answer}});
        let done = client.call_with(json!({"elicitation": {}}), "tools/call", params).await.json();
        assert_eq!(done["result"]["structuredContent"]["hello"] == "x", expected, "{index}: {done}");
    }
}

#[tokio::test]
async fn requests_from_web_pages_are_refused() {
    let server = Server::start().await;
    let body = request(1, "ping", json!({})).to_string();
    let mut client = Client::connect(&server.address).await;
    let evil = client.send("POST", &[("origin", "https://evil.example")], body.as_bytes()).await;
    assert_eq!(evil.status, 403);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_disconnected() {
    let server = Server::start().await;
    let filler = "x".repeat(60 << 10);
    let body =
        stateless(1, json!({}), "tools/call", json!({"name": "echo", "arguments": {"filler": filler}}));
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: echo\r\ncontent-length: {}\r\n\r\n{body}",
        server.address,
        body.to_string().len()
    );
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    let written = async { while stream.write_all(head.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(20), written).await.expect("the server waits for ever");
}
