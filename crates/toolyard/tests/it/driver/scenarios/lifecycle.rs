//! Handshake, liveness, levels, several requests at a time, cancellation.

use crate::driver::context::ScenarioContext;
use crate::support::{TIMEOUT, eventually, processes_with};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub fn initialize(context: &ScenarioContext) {
    let mut client = context.connect_raw(json!({}));
    let hello = json!({"protocolVersion": context.revision, "capabilities": {"sampling": {}, "elicitation": {}},
                       "clientInfo": {"name": "driver", "version": "1"}});
    let answer = client.request("initialize", hello);
    let result = &answer["result"];
    let checks = &context.checks;
    checks.equal("the revision is the one asked for", &result["protocolVersion"], context.revision);
    checks.equal("the server has a name", &result["serverInfo"]["name"], "toolyard");
    checks.that("the server has a version", result["serverInfo"]["version"].is_string(), result);
    checks.that("it has tools", result["capabilities"]["tools"].is_object(), result);
    client.notify("notifications/initialized", json!({}));
    let listed = client.result("tools/list", json!({}));
    checks.that("it works after the handshake", listed["tools"].is_array(), &listed);
    client.close();
    let mut client = context.connect_raw(json!({}));
    let hello = json!({"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "d", "version": "1"}});
    let answer = client.request("initialize", hello);
    checks.equal(
        "of an unknown revision the newest is offered",
        &answer["result"]["protocolVersion"],
        "2025-11-25",
    );
    client.close();
}

/// Pipes are one session; over HTTP a second handshake would begin another one.
pub fn one_handshake(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let hello = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "d", "version": "1"}});
    let again = client.request("initialize", hello);
    context.checks.refused("there is one handshake", &again, -32600);
    let requests = [("ping", json!({}))];
    let ids = client.batch(&requests);
    client.listen(Duration::from_millis(100));
    context.checks.that("the revision is unchanged and has no batches", !client.is_answered(&ids[0]), &again);
    let refusal = client.errors_without_id.pop().unwrap_or_default();
    context.checks.refused("the batch is refused", &refusal, -32600);
    client.close();
}

pub fn ping(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let started = Instant::now();
    let id = client.start_bare("ping", None);
    let answer = client.finish(&id);
    context.checks.equal("a ping is answered with nothing", &answer["result"], json!({}));
    context.checks.that("at once", started.elapsed() < Duration::from_secs(2), &Value::Null);
    client.close();
}

pub fn set_level(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    for level in ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] {
        let result = client.result("logging/setLevel", json!({"level": level}));
        context.checks.equal("a level is taken", &result, json!({}));
    }
    let answer = client.request("logging/setLevel", json!({"level": "loud"}));
    context.checks.refused("an unknown level is refused", &answer, -32602);
    client.close();
}

/// The counterpart of several HTTP streams: concurrent requests, each with its own response.
pub fn several_at_once(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let slow = client.start("tools/call", json!({"name": "slow_compute", "arguments": {"seconds": 1}}));
    let lists: Vec<Value> = (0..3).map(|_| client.start("tools/list", json!({}))).collect();
    let greetings: Vec<(Value, String)> = ["Ann", "Bob", "Cleo"]
        .into_iter()
        .map(|name| {
            let id = client.start("tools/call", json!({"name": "greet", "arguments": {"name": name}}));
            (id, format!("Hello, {name}!"))
        })
        .collect();
    for id in &lists {
        let answer = client.finish(id);
        context.checks.that("every request is answered", answer["result"]["tools"].is_array(), &answer);
    }
    context.checks.that("a slow call blocks no other", !client.is_answered(&slow), &Value::Null);
    for (id, greeting) in &greetings {
        let answer = client.finish(id);
        context.checks.equal(
            "an answer is that to its question",
            &answer["result"]["content"][0]["text"],
            greeting.as_str(),
        );
    }
    let answer = client.finish(&slow);
    context.checks.equal("the slow one too", &answer["result"]["content"][0]["text"], "Computed for 1 s");
    client.close();
}

/// A cancelled call gets no response, its process is killed, and the connection stays usable.
pub fn cancellation(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let id = client.start("tools/call", json!({"name": "hang", "arguments": {}}));
    eventually("the tool runs", TIMEOUT, || !processes_with(context.marker).is_empty());
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "the person left"}));
    let started = Instant::now();
    eventually("the tool is gone", TIMEOUT, || processes_with(context.marker).is_empty());
    context.checks.that("it is gone soon", started.elapsed() < Duration::from_secs(2), &Value::Null);
    client.listen(Duration::from_millis(200));
    context.checks.that("what was cancelled is not answered", !client.is_answered(&id), &id);
    let greeting = client.call("greet", json!({"name": "you"}));
    context.checks.equal("the conversation goes on", &greeting["content"][0]["text"], "Hello, you!");
    client.notify("notifications/cancelled", json!({"requestId": "no-such-request"}));
    let listed = client.result("tools/list", json!({}));
    context.checks.that("cancelling nothing does nothing", listed["tools"].is_array(), &listed);
    client.close();
}

/// Errors for a client that breaks the protocol.
pub fn broken_rules(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let answer = client.request("no/such/method", json!({}));
    context.checks.refused("an unknown method", &answer, -32601);
    let answer = client.request("tools/call", json!({"name": "no_such_tool"}));
    context.checks.refused("an unknown tool", &answer, -32602);
    let answer = client.request("tools/call", json!({}));
    context.checks.refused("a call of nothing", &answer, -32602);
    let answer = client.request("tools/list", json!({"cursor": "not-one-of-ours"}));
    context.checks.refused("an unknown cursor", &answer, -32602);
    let result = client.call("greet", json!({"name": 7}));
    context.checks.equal("wrong arguments are for the model to see", &result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    context.checks.that("with the place", text.contains("/name"), &result);
    let listed = client.result("tools/list", json!({}));
    context.checks.that("none of this ends the conversation", listed["tools"].is_array(), &listed);
    client.close();
}

/// The older revisions: what they lack is not sent, what they have works.
pub fn older_revision(context: &ScenarioContext) {
    let checks = &context.checks;
    let mut client = context.connect(json!({"sampling": {}}));
    let listed = client.result("tools/list", json!({}));
    let tools = listed["tools"].as_array().cloned().unwrap_or_default();
    checks.that("there are tools", tools.iter().any(|tool| tool["name"] == "greet"), &listed);
    let result = client.call("greet", json!({"name": "old friend"}));
    checks.equal(
        "a call is answered in text",
        &result["content"][0],
        json!({"type": "text", "text": "Hello, old friend!"}),
    );
    checks.lacks("no member of a later revision", &result, &["resultType"]);
    if context.revision < "2025-06-18" {
        checks.lacks("structured content came later", &result, &["structuredContent"]);
        checks.that(
            "output schemas came later",
            tools.iter().all(|tool| tool.get("outputSchema").is_none()),
            &listed,
        );
    } else {
        checks.equal(
            "structured content is an object",
            &result["structuredContent"],
            json!({"result": "Hello, old friend!"}),
        );
    }
    let result = client.call("test_error_handling", json!({}));
    checks.equal("an error is a result", &result["isError"], true);
    let params = json!({"name": "test_audio_content", "arguments": {}});
    let result = client.result("tools/call", params);
    checks.that("content is there", result["content"][0]["type"].is_string(), &result);
    checks.equal("a ping is answered with nothing", &client.result("ping", json!({})), json!({}));
    let requests = [("ping", json!({})), ("tools/list", json!({}))];
    if context.revision == "2025-03-26" {
        let ids = client.batch(&requests);
        checks.equal("the first of a batch", &client.finish(&ids[0])["result"], json!({}));
        let answer = client.finish(&ids[1]);
        checks.that("the second of a batch", answer["result"]["tools"].is_array(), &answer);
    }
    client.close();
}

/// One connection may be used with a session and statelessly at the same time.
pub fn both_eras(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "test_simple_text", "_meta": meta});
    let modern = client.start_bare("tools/call", Some(params));
    let classic =
        client.start_bare("tools/call", Some(json!({"name": "greet", "arguments": {"name": "old"}})));
    let (modern, classic) = (client.finish(&modern), client.finish(&classic));
    if context.is_legacy() {
        context.checks.refused("there it ends with 2025-11-25", &modern, -32600);
    } else {
        context.checks.equal("the message decides", &modern["result"]["resultType"], "complete");
    }
    context.checks.lacks("for each alone", &classic["result"], &["resultType"]);
    context.checks.equal("and both are answered", &classic["result"]["content"][0]["text"], "Hello, old!");
    client.close();
}
