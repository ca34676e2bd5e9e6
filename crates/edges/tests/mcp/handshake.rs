//! Sessions: handshake and end, calls and questions, resumed streams.

use crate::client::request;
use crate::server::{Server, eventually};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

#[tokio::test]
async fn every_revision_gets_its_own_format() {
    let server = Server::start().await;
    for (version, structured, annotated) in [
        ("2024-11-05", false, false),
        ("2025-03-26", false, true),
        ("2025-06-18", true, true),
        ("2025-11-25", true, true),
    ] {
        let mut client = server.client().await;
        let session = client.initialize(version, json!({})).await;
        let tools = client.ask(&session, &request(1, "tools/list", json!({}))).await.json();
        let echo =
            tools["result"]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "echo").unwrap();
        assert_eq!(echo["title"].is_string(), structured, "{version}");
        assert_eq!(echo["annotations"].is_object(), annotated, "{version}");
        assert_eq!((tools["result"].get("resultType"), tools["result"].get("ttlMs")), (None, None));
        let number = client.ask(&session, &call(2, "number", json!({}))).await;
        let text = String::from_utf8(number.body).unwrap();
        assert!(text.contains(r#""text":"12345678901234567890""#), "{text}");
        assert_eq!(
            text.contains(r#""structuredContent":{"result":12345678901234567890}"#),
            structured,
            "{version}"
        );
        assert_eq!(client.ask(&session, &request(3, "ping", json!({}))).await.json()["result"], json!({}));
    }
    let mut client = server.client().await;
    let params = json!({"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let answer = client.send("POST", &[], request(0, "initialize", params).to_string().as_bytes()).await;
    assert_eq!(answer.json()["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn a_session_is_needed_and_ends_when_it_is_deleted() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let list = request(1, "tools/list", json!({}));
    assert_eq!(client.send("POST", &[], list.to_string().as_bytes()).await.status, 400);
    assert_eq!(client.ask("0123456789abcdef0123456789abcdef", &list).await.status, 404);
    let session = client.initialize("2025-11-25", json!({})).await;
    assert_eq!(session.len(), 32);
    assert_eq!(client.ask(&session, &list).await.status, 200);
    // The end of the session cancels its calls.
    let mut other = server.client().await;
    other
        .write("POST", &[("mcp-session-id", &session)], call(2, "hang", json!({})).to_string().as_bytes())
        .await;
    eventually("started", || server.counts.started.load(Ordering::SeqCst) == 1).await;
    let deleted = client.send("DELETE", &[("mcp-session-id", &session)], b"").await;
    assert_eq!(deleted.status, 204);
    eventually("stopped", || server.counts.stopped.load(Ordering::SeqCst) == 1).await;
    assert_eq!(client.ask(&session, &list).await.status, 404);
    assert_eq!(client.send("DELETE", &[("mcp-session-id", &session)], b"").await.status, 404);
    assert_eq!(client.send("DELETE", &[], b"").await.status, 405);
    assert_eq!(client.send("GET", &[], b"").await.status, 405);
}

#[tokio::test]
async fn questions_are_requests_on_the_stream_of_the_call() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.client().await, server.client().await);
    let session = client.initialize("2025-06-18", json!({"elicitation": {}})).await;
    assert!(client.ask(&session, &call(1, "ask_name", json!({}))).await.is_stream());
    let event = client.event().await.unwrap();
    let asked = event.json();
    assert_eq!(
        (asked["method"].as_str(), &asked["params"]["message"]),
        (Some("elicitation/create"), &json!("name"))
    );
    assert_eq!(asked["params"].get("mode"), None, "this revision has no modes");
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"name": "Ada"}}});
    assert_eq!(other.ask(&session, &answer).await.status, 202);
    let done = client.event().await.unwrap().json();
    assert_eq!(done["result"]["structuredContent"]["hello"], "Ada");
    assert!(client.event().await.is_none());
    // A client that refuses: the tool gets the reason.
    client.ask(&session, &call(2, "ask_name", json!({}))).await;
    let asked = client.event().await.unwrap().json();
    let refusal = json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "not now"}});
    other.ask(&session, &refusal).await;
    let done = client.event().await.unwrap().json();
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("not now"), "{done}");
    assert!(client.event().await.is_none());
    // A client without the capability is not asked.
    let session = client.initialize("2025-06-18", json!({})).await;
    let done = client.ask(&session, &call(1, "ask_name", json!({}))).await.json();
    assert_eq!(done["result"]["isError"], true);
}

#[tokio::test]
async fn log_and_progress_follow_what_the_client_wants() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let session = client.initialize("2025-11-25", json!({})).await;
    let level = |level: &str| request(9, "logging/setLevel", json!({"level": level}));
    assert_eq!(client.ask(&session, &level("loud")).await.json()["error"]["code"], -32602);
    assert_eq!(client.ask(&session, &level("error")).await.json()["result"], json!({}));
    let mut steps = call(1, "steps", json!({}));
    let answer = client.ask(&session, &steps).await;
    assert!(!answer.is_stream(), "no messages before the response");
    client.ask(&session, &level("debug")).await;
    steps["params"]["_meta"] = json!({"progressToken": "p"});
    assert!(client.ask(&session, &steps).await.is_stream());
    let first = client.event().await.unwrap();
    assert_eq!((first.data.as_deref(), first.retry), (Some(""), Some(1000)), "an event id to resume from");
    let mut methods = Vec::new();
    while let Some(event) = client.event().await {
        assert!(event.id.is_some());
        methods.push(event.json()["method"].as_str().unwrap_or("result").to_owned());
    }
    assert_eq!(methods.iter().filter(|method| *method == "notifications/progress").count(), 3);
    assert_eq!(methods.iter().filter(|method| *method == "notifications/message").count(), 4);
    assert_eq!(methods.last().unwrap(), "result");
}

#[tokio::test]
async fn a_lost_stream_is_resumed_after_the_last_event() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let session = client.initialize("2025-11-25", json!({})).await;
    // The tool itself disconnects the client.
    assert!(client.ask(&session, &call(1, "leave", json!({}))).await.is_stream());
    let first = client.event().await.unwrap();
    let id = first.id.unwrap();
    assert_eq!(client.event().await.unwrap().retry, Some(10));
    assert!(client.event().await.is_none());
    let mut again = server.client().await;
    let answer = again.send("GET", &[("mcp-session-id", &session), ("last-event-id", &id)], b"").await;
    assert!(answer.is_stream());
    assert_eq!(again.event().await.unwrap().json()["result"]["structuredContent"], json!({"back": true}));
    assert!(again.event().await.is_none());
    // The connection is lost during the call: the call continues, and missed events are sent again.
    let mut steps = call(2, "steps", json!({}));
    steps["params"]["_meta"] = json!({"progressToken": 1});
    client.ask(&session, &steps).await;
    client.event().await.unwrap();
    let seen = client.event().await.unwrap().id.unwrap();
    drop(client);
    let mut again = server.client().await;
    again.send("GET", &[("mcp-session-id", &session), ("last-event-id", &seen)], b"").await;
    let mut last = Value::Null;
    let mut count = 0;
    while let Some(event) = again.event().await {
        last = event.json();
        count += 1;
    }
    assert_eq!(last["result"]["structuredContent"], json!({"done": true}));
    assert!(count > 2, "{count} events");
}

#[tokio::test]
async fn cancelled_requests_are_stopped_and_not_answered() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.client().await, server.client().await);
    let session = client.initialize("2025-11-25", json!({})).await;
    client
        .write("POST", &[("mcp-session-id", &session)], call(7, "hang", json!({})).to_string().as_bytes())
        .await;
    eventually("started", || server.counts.started.load(Ordering::SeqCst) == 1).await;
    // A disconnect does not cancel.
    drop(client);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.counts.stopped.load(Ordering::SeqCst), 0);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(other.ask(&session, &cancel).await.status, 202);
    eventually("stopped", || server.counts.stopped.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn batches_belong_to_one_revision() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let batch = json!([
        request(1, "ping", json!({})),
        call(2, "echo", json!({"n": 2})),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
    ]);
    let session = client.initialize("2025-03-26", json!({})).await;
    let answers = client.ask(&session, &batch).await.json();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().any(|answer| answer["id"] == 1 && answer["result"] == json!({})));
    assert!(
        answers
            .iter()
            .any(|answer| answer["id"] == 2 && answer["result"]["content"][0]["text"] == "{\"n\":2}")
    );
    assert!(answers.iter().any(|answer| answer["id"].is_null() && answer["error"]["code"] == -32600));
    let quiet = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]);
    assert_eq!(client.ask(&session, &quiet).await.status, 202);
    let session = client.initialize("2025-11-25", json!({})).await;
    let refused = client.ask(&session, &batch).await;
    assert_eq!((refused.status, refused.json()["error"]["code"].as_i64()), (400, Some(-32600)));
}

#[tokio::test]
async fn a_malformed_message_of_a_batch_is_answered_on_a_stream_too() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let session = client.initialize("2025-03-26", json!({})).await;
    let mut steps = call(1, "steps", json!({}));
    steps["params"]["_meta"] = json!({"progressToken": "p"});
    let batch = json!([steps, {"jsonrpc": "2.0", "id": 1.5, "method": "ping"}]);
    assert!(client.ask(&session, &batch).await.is_stream());
    let (mut codes, mut results) = (Vec::new(), 0);
    while let Some(event) = client.event().await {
        codes.extend(event.json()["error"]["code"].as_i64());
        results += usize::from(event.json()["id"] == 1);
    }
    assert_eq!((codes, results), (vec![-32600], 1));
}

#[tokio::test]
async fn the_notification_stream_reports_changes_and_only_the_newest_is_served() {
    let server = Server::start().await;
    let (mut client, mut newer) = (server.client().await, server.client().await);
    let session = client.initialize("2025-11-25", json!({})).await;
    assert!(client.send("GET", &[("mcp-session-id", &session)], b"").await.is_stream());
    server.reload("echo");
    let event = client.event().await.unwrap();
    assert_eq!(event.json()["method"], "notifications/tools/list_changed");
    assert!(newer.send("GET", &[("mcp-session-id", &session)], b"").await.is_stream());
    assert!(client.event().await.is_none(), "the older stream ends");
    server.reload("number");
    assert_eq!(newer.event().await.unwrap().json()["method"], "notifications/tools/list_changed");
}
