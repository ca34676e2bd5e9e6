//! Revision 2026-07-28: required `_meta`, results with questions, streams that end with their client.

use crate::client::stateless;
use crate::server::{Server, eventually};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn elicitation() -> Value {
    json!({"elicitation": {}})
}

fn answer(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

#[tokio::test]
async fn a_call_is_answered_with_every_byte_of_its_result() {
    let server = Server::start().await;
    let body = r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"echo","arguments":{"n": 12345678901234567890, "vendor": [1.50, "é"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
    let answer = server.client().await.send("POST", &headers, body.as_bytes()).await;
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert_eq!(answer.status, 200);
    assert!(text.contains(r#""id":9007199254740993,"#), "{text}");
    assert!(
        text.contains(r#""structuredContent":{"n": 12345678901234567890, "vendor": [1.50, "é"]}"#),
        "{text}"
    );
    let result = &answer.json()["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolyard");
    assert_eq!(result["content"][0]["text"], r#"{"n": 12345678901234567890, "vendor": [1.50, "é"]}"#);
}

#[tokio::test]
async fn required_meta_and_headers_are_checked() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let version = ("mcp-protocol-version", "2026-07-28");
    let good = stateless(5, json!({}), "tools/list", json!({}));
    let without = |key: &str| {
        let mut body = good.clone();
        body["params"]["_meta"].as_object_mut().unwrap().remove(&format!("io.modelcontextprotocol/{key}"));
        body
    };
    let mut newer = good.clone();
    newer["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("v999");
    let method = ("mcp-method", "tools/list");
    for (headers, body, status, code) in [
        (vec![version, method], without("protocolVersion"), 400, -32602),
        (vec![version, method], without("clientCapabilities"), 400, -32602),
        (vec![version, method], newer.clone(), 400, -32020),
        (vec![("mcp-protocol-version", "v999"), method], newer, 400, -32022),
        (vec![method], good.clone(), 400, -32020),
        (vec![version], good.clone(), 400, -32020),
        (vec![version, ("mcp-method", "TOOLS/LIST")], good.clone(), 400, -32020),
    ] {
        let answer = client.send("POST", &headers, body.to_string().as_bytes()).await;
        let json = answer.json();
        assert_eq!(
            (answer.status, json["error"]["code"].as_i64()),
            (status, Some(code)),
            "{headers:?} {body}"
        );
        assert_eq!(json["id"], 5);
    }
    let answer = client.send("POST", &[version, method], good.to_string().as_bytes()).await;
    assert_eq!(answer.json()["result"]["tools"].as_array().unwrap().len(), 14);
    assert_eq!(answer.json()["result"]["cacheScope"], "private");
    for gone in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "prompts/list", "x"] {
        let answer = client.call(gone, json!({})).await;
        assert_eq!((answer.status, answer.json()["error"]["code"].as_i64()), (404, Some(-32601)), "{gone}");
    }
    let discovered = client.call("server/discover", json!({})).await.json();
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(discovered["result"]["capabilities"], json!({"tools": {"listChanged": true}, "logging": {}}));
}

#[tokio::test]
async fn errors_have_hints() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let unknown = client.call("tools/call", json!({"name": "ech"})).await;
    assert_eq!((unknown.status, unknown.json()["error"]["code"].as_i64()), (200, Some(-32602)));
    assert_eq!(unknown.json()["error"]["data"]["error_details"]["hint"], "did you mean 'echo'?");
    let invalid = client.call("tools/call", json!({"name": "echo", "arguments": {"n": "x"}})).await.json();
    assert_eq!(invalid["result"]["isError"], true);
    assert!(invalid["result"]["content"][0]["text"].as_str().unwrap().contains("/n"), "{invalid}");
    assert_eq!(invalid["result"]["_meta"]["toolyard/error"]["error_type"], "ValidationError");
    let failed = client.call("tools/call", json!({"name": "fail"})).await.json();
    assert_eq!(failed["result"]["content"][0]["text"], "error[EINTERNAL]: it broke\nhint: fix it");
    assert_eq!(failed["result"].get("structuredContent"), None);
    let number = client.call("tools/call", json!({"name": "number"})).await;
    assert!(String::from_utf8_lossy(&number.body).contains(r#""structuredContent":12345678901234567890"#));
}

#[tokio::test]
async fn progress_and_log_come_on_a_stream_before_the_result() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let meta = json!({"progressToken": 7, "io.modelcontextprotocol/logLevel": "info"});
    let answer = client.call("tools/call", json!({"name": "steps", "_meta": meta})).await;
    assert!(answer.is_stream(), "{answer:?}");
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let (mut progress, mut logs, mut last) = (Vec::new(), 0, Value::Null);
    while let Some(event) = client.event().await {
        assert_eq!(event.id, None);
        last = event.json();
        match last["method"].as_str() {
            Some("notifications/progress") => {
                assert_eq!(
                    (&last["params"]["progressToken"], last["params"].get("total")),
                    (&json!(7), None)
                );
                progress.push(last["params"]["progress"].as_i64().unwrap());
            }
            Some("notifications/message") => logs += 1,
            _ => {}
        }
    }
    assert_eq!((progress, logs), (vec![0, 50, 100], 4));
    assert_eq!(last["result"]["structuredContent"], json!({"done": true}));
    // No progress or log was requested: plain JSON.
    let answer = client.call("tools/call", json!({"name": "steps"})).await;
    assert_eq!(answer.json()["result"]["structuredContent"], json!({"done": true}));
}

#[tokio::test]
async fn a_question_is_returned_as_input_required_and_the_call_is_resumed() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let asked = client.call_with(elicitation(), "tools/call", json!({"name": "ask_name"})).await.json();
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(result["inputRequests"]["name"]["method"], "elicitation/create");
    assert_eq!(result["inputRequests"]["name"]["params"]["mode"], "form");
    let state = result["requestState"].as_str().unwrap();
    // Invalid answers are asked for again; the state changes.
    let wrong =
        json!({"name": "ask_name", "requestState": state, "inputResponses": {"name": 5, "other": {}}});
    let again = client.call_with(elicitation(), "tools/call", wrong).await.json();
    assert_eq!(again["result"]["resultType"], "input_required");
    let state = again["result"]["requestState"].as_str().unwrap();
    let right = json!({"name": "ask_name", "requestState": state, "inputResponses": {"name": answer("Ada")}});
    let done = client.call_with(elicitation(), "tools/call", right.clone()).await.json();
    assert_eq!(done["result"]["structuredContent"], json!({"hello": "Ada", "action": "accept"}));
    // The parked call was taken, and the tool is not declared safe to repeat.
    let twice = client.call_with(elicitation(), "tools/call", right).await.json();
    assert_eq!(twice["error"]["code"], -32602);
    assert!(twice["error"]["message"].as_str().unwrap().contains("not declared safe to repeat"), "{twice}");
}

#[tokio::test]
async fn concurrent_questions_are_returned_together() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let asked = client.call_with(elicitation(), "tools/call", json!({"name": "ask_two"})).await.json();
    let requests = asked["result"]["inputRequests"].as_object().unwrap();
    assert_eq!(requests.keys().collect::<Vec<_>>(), ["first", "second"]);
    let state = &asked["result"]["requestState"];
    let part = json!({"name": "ask_two", "requestState": state, "inputResponses": {"second": answer("B")}});
    let asked = client.call_with(elicitation(), "tools/call", part).await.json();
    assert_eq!(asked["result"]["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["first"]);
    let state = &asked["result"]["requestState"];
    let rest = json!({"name": "ask_two", "requestState": state, "inputResponses": {"first": answer("A")}});
    let done = client.call_with(elicitation(), "tools/call", rest).await.json();
    assert_eq!(done["result"]["structuredContent"], json!(["A", "B"]));
}

#[tokio::test]
async fn a_tool_that_is_safe_to_repeat_runs_again_when_its_call_is_lost() {
    let first = Server::start().await;
    let mut client = first.client().await;
    let asked = client.call_with(elicitation(), "tools/call", json!({"name": "ask_twice"})).await.json();
    let state = &asked["result"]["requestState"];
    let params =
        json!({"name": "ask_twice", "requestState": state, "inputResponses": {"first": answer("A")}});
    let asked = client.call_with(elicitation(), "tools/call", params).await.json();
    assert_eq!(asked["result"]["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["second"]);
    // Another server with the same key, which never saw the call.
    let second = Server::start().await;
    let mut client = second.client().await;
    let state = &asked["result"]["requestState"];
    let params =
        json!({"name": "ask_twice", "requestState": state, "inputResponses": {"second": answer("B")}});
    let done = client.call_with(elicitation(), "tools/call", params).await.json();
    assert_eq!(done["result"]["structuredContent"], json!(["A", "B"]));
}

#[tokio::test]
async fn a_state_is_good_for_its_own_request_only() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let asked = client.call_with(elicitation(), "tools/call", json!({"name": "ask_name"})).await.json();
    let state = asked["result"]["requestState"].as_str().unwrap().to_owned();
    for (name, arguments, state, what) in [
        ("ask_name", json!({}), format!("{state}-TAMPERED"), "modified"),
        ("ask_name", json!({}), "e30=".to_owned(), "modified"),
        ("ask_name", json!({"n": 1}), state.clone(), "another request"),
        ("ask_name_again", json!({}), state.clone(), "another request"),
    ] {
        let params = json!({"name": name, "arguments": arguments, "requestState": state,
                            "inputResponses": {"name": answer("x")}});
        let refused = client.call_with(elicitation(), "tools/call", params).await.json();
        assert_eq!(refused["error"]["code"], -32602, "{name} {arguments}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(what), "{refused}");
    }
    let expired = Server::with(|options| options.park_for = Duration::ZERO).await;
    let mut client = expired.client().await;
    let asked = client.call_with(elicitation(), "tools/call", json!({"name": "ask_name"})).await.json();
    let params = json!({"name": "ask_name", "requestState": asked["result"]["requestState"]});
    let late = client.call_with(elicitation(), "tools/call", params).await.json();
    assert!(late["error"]["message"].as_str().unwrap().contains("has expired"), "{late}");
}

#[tokio::test]
async fn only_declared_capabilities_are_used() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let refused = client.call("tools/call", json!({"name": "sample"})).await;
    assert_eq!((refused.status, refused.json()["error"]["code"].as_i64()), (400, Some(-32021)));
    assert_eq!(refused.json()["error"]["data"], json!({"requiredCapabilities": {"sampling": {}}}));
    let asked =
        client.call_with(json!({"sampling": {}}), "tools/call", json!({"name": "sample"})).await.json();
    assert_eq!(asked["result"]["inputRequests"]["sample"]["method"], "sampling/createMessage");
}

#[tokio::test]
async fn answers_may_come_before_their_questions() {
    let server = Server::start().await;
    let params = json!({"name": "ask_name", "inputResponses": {"name": answer("Ada"), "extra": answer("x")}});
    let done = server.client().await.call_with(elicitation(), "tools/call", params).await.json();
    assert_eq!(done["result"]["structuredContent"]["hello"], "Ada");
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_its_call() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let body = stateless(1, json!({}), "tools/call", json!({"name": "hang"})).to_string();
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "hang")];
    client.write("POST", &headers, body.as_bytes()).await;
    eventually("started", || server.counts.started.load(Ordering::SeqCst) == 1).await;
    drop(client);
    eventually("stopped", || server.counts.stopped.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn one_id_may_be_in_flight_several_times() {
    let server = Server::start().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let mut client = server.client().await;
        tasks.spawn(async move { client.call("tools/call", json!({"name": "steps"})).await.json() });
    }
    let answers = tasks.join_all().await;
    assert!(answers.iter().all(|answer| answer["id"] == 1 && answer["result"]["isError"].is_null()));
}

#[tokio::test]
async fn changes_are_sent_to_subscribers() {
    let mut server = Server::start().await;
    let (mut tools, mut prompts) = (server.client().await, server.client().await);
    let wanted =
        json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true, "taskIds": []}});
    assert!(tools.call("subscriptions/listen", wanted).await.is_stream());
    let acknowledged = tools.event().await.unwrap().json();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    // There are no prompts, so they are not acknowledged.
    assert_eq!(acknowledged["params"]["notifications"], json!({"toolsListChanged": true}));
    assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    let narrow = json!({"notifications": {"promptsListChanged": true}});
    assert!(prompts.call("subscriptions/listen", narrow).await.is_stream());
    assert_eq!(prompts.event().await.unwrap().json()["params"]["notifications"], json!({}));
    server.reload("echo");
    let changed = tools.event().await.unwrap().json();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    server.reload("echo");
    server.stop();
    // An equal list is not a change; the next message is the end, for both.
    for client in [&mut tools, &mut prompts] {
        let end = client.event().await.unwrap().json();
        assert_eq!((end["id"].as_i64(), &end["result"]["resultType"]), (Some(1), &json!("complete")));
        assert!(client.event().await.is_none());
    }
}

#[tokio::test]
async fn a_client_that_accepts_no_stream_gets_only_the_response() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let body = stateless(1, json!({}), "tools/call", json!({"name": "steps", "_meta": {"progressToken": 1}}));
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "steps"),
        ("accept", "application/json"),
    ];
    let answer = client.send("POST", &headers, body.to_string().as_bytes()).await;
    assert_eq!(answer.json()["result"]["structuredContent"], json!({"done": true}));
}
