//! Handshake, liveness, levels, several requests at a time, cancellation.

use crate::driver::stage::Stage;
use crate::support::{PATIENCE, eventually, processes_with};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub fn initialize(stage: &Stage) {
    let mut peer = stage.stranger(json!({}));
    let hello = json!({"protocolVersion": stage.revision, "capabilities": {"sampling": {}, "elicitation": {}},
                       "clientInfo": {"name": "driver", "version": "1"}});
    let answer = peer.request("initialize", hello);
    let result = &answer["result"];
    let checks = &stage.checks;
    checks.equal("the revision is the one asked for", &result["protocolVersion"], stage.revision);
    checks.equal("the server has a name", &result["serverInfo"]["name"], "toolyard");
    checks.that("the server has a version", result["serverInfo"]["version"].is_string(), result);
    checks.that("it has tools", result["capabilities"]["tools"].is_object(), result);
    peer.notify("notifications/initialized", json!({}));
    let listed = peer.result("tools/list", json!({}));
    checks.that("it works after the handshake", listed["tools"].is_array(), &listed);
    peer.close();
    let mut peer = stage.stranger(json!({}));
    let hello = json!({"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "d", "version": "1"}});
    let answer = peer.request("initialize", hello);
    checks.equal(
        "of an unknown revision the newest is offered",
        &answer["result"]["protocolVersion"],
        "2025-11-25",
    );
    peer.close();
}

/// Pipes are one session; over HTTP a second handshake would begin another one.
pub fn one_handshake(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let hello = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "d", "version": "1"}});
    let again = peer.request("initialize", hello);
    stage.checks.refused("there is one handshake", &again, -32600);
    let requests = [("ping", json!({}))];
    let ids = peer.batch(&requests);
    peer.listen(Duration::from_millis(100));
    stage.checks.that("the revision stays, and it has no batches", !peer.is_answered(&ids[0]), &again);
    let refusal = peer.nameless.pop().unwrap_or_default();
    stage.checks.refused("which is said", &refusal, -32600);
    peer.close();
}

pub fn ping(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let started = Instant::now();
    let id = peer.start_bare("ping", None);
    let answer = peer.finish(&id);
    stage.checks.equal("a ping is answered with nothing", &answer["result"], json!({}));
    stage.checks.that("at once", started.elapsed() < Duration::from_secs(2), &Value::Null);
    peer.close();
}

pub fn set_level(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    for level in ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] {
        let result = peer.result("logging/setLevel", json!({"level": level}));
        stage.checks.equal("a level is taken", &result, json!({}));
    }
    let answer = peer.request("logging/setLevel", json!({"level": "loud"}));
    stage.checks.refused("an unknown level is refused", &answer, -32602);
    peer.close();
}

/// What several streams are on HTTP: requests that do not wait for each other, and answers that belong to theirs.
pub fn several_at_once(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let slow = peer.start("tools/call", json!({"name": "slow_compute", "arguments": {"seconds": 1}}));
    let lists: Vec<Value> = (0..3).map(|_| peer.start("tools/list", json!({}))).collect();
    let greetings: Vec<(Value, String)> = ["Ann", "Bob", "Cleo"]
        .into_iter()
        .map(|name| {
            let id = peer.start("tools/call", json!({"name": "greet", "arguments": {"name": name}}));
            (id, format!("Hello, {name}!"))
        })
        .collect();
    for id in &lists {
        let answer = peer.finish(id);
        stage.checks.that("every request is answered", answer["result"]["tools"].is_array(), &answer);
    }
    stage.checks.that("a slow call holds no one up", !peer.is_answered(&slow), &Value::Null);
    for (id, greeting) in &greetings {
        let answer = peer.finish(id);
        stage.checks.equal(
            "an answer is that to its question",
            &answer["result"]["content"][0]["text"],
            greeting.as_str(),
        );
    }
    let answer = peer.finish(&slow);
    stage.checks.equal("the slow one too", &answer["result"]["content"][0]["text"], "Computed for 1 s");
    peer.close();
}

/// A call that was cancelled is not answered, its process is gone, and the conversation goes on.
pub fn cancellation(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let id = peer.start("tools/call", json!({"name": "hang", "arguments": {}}));
    eventually("the tool runs", PATIENCE, || !processes_with(stage.marker).is_empty());
    peer.notify("notifications/cancelled", json!({"requestId": id, "reason": "the person left"}));
    let started = Instant::now();
    eventually("the tool is gone", PATIENCE, || processes_with(stage.marker).is_empty());
    stage.checks.that("it is gone soon", started.elapsed() < Duration::from_secs(2), &Value::Null);
    peer.listen(Duration::from_millis(200));
    stage.checks.that("what was cancelled is not answered", !peer.is_answered(&id), &id);
    let greeting = peer.call("greet", json!({"name": "you"}));
    stage.checks.equal("the conversation goes on", &greeting["content"][0]["text"], "Hello, you!");
    peer.notify("notifications/cancelled", json!({"requestId": "no-such-request"}));
    let listed = peer.result("tools/list", json!({}));
    stage.checks.that("cancelling nothing does nothing", listed["tools"].is_array(), &listed);
    peer.close();
}

/// What a client that breaks the rules is told.
pub fn broken_rules(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let answer = peer.request("no/such/method", json!({}));
    stage.checks.refused("an unknown method", &answer, -32601);
    let answer = peer.request("tools/call", json!({"name": "no_such_tool"}));
    stage.checks.refused("an unknown tool", &answer, -32602);
    let answer = peer.request("tools/call", json!({}));
    stage.checks.refused("a call of nothing", &answer, -32602);
    let answer = peer.request("tools/list", json!({"cursor": "not-one-of-ours"}));
    stage.checks.refused("an unknown cursor", &answer, -32602);
    let result = peer.call("greet", json!({"name": 7}));
    stage.checks.equal("wrong arguments are for the model to see", &result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    stage.checks.that("with the place", text.contains("/name"), &result);
    let listed = peer.result("tools/list", json!({}));
    stage.checks.that("none of this ends the conversation", listed["tools"].is_array(), &listed);
    peer.close();
}

/// The older revisions: what they lack is not sent, what they have works.
pub fn older_revision(stage: &Stage) {
    let checks = &stage.checks;
    let mut peer = stage.connect(json!({"sampling": {}}));
    let listed = peer.result("tools/list", json!({}));
    let tools = listed["tools"].as_array().cloned().unwrap_or_default();
    checks.that("there are tools", tools.iter().any(|tool| tool["name"] == "greet"), &listed);
    let result = peer.call("greet", json!({"name": "old friend"}));
    checks.equal(
        "a call is answered in text",
        &result["content"][0],
        json!({"type": "text", "text": "Hello, old friend!"}),
    );
    checks.lacks("no member of a later revision", &result, &["resultType"]);
    if stage.revision < "2025-06-18" {
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
    let result = peer.call("test_error_handling", json!({}));
    checks.equal("an error is a result", &result["isError"], true);
    let params = json!({"name": "test_audio_content", "arguments": {}});
    let result = peer.result("tools/call", params);
    checks.that("content is there", result["content"][0]["type"].is_string(), &result);
    checks.equal("a ping is answered with nothing", &peer.result("ping", json!({})), json!({}));
    let requests = [("ping", json!({})), ("tools/list", json!({}))];
    if stage.revision == "2025-03-26" {
        let ids = peer.batch(&requests);
        checks.equal("the first of a batch", &peer.finish(&ids[0])["result"], json!({}));
        let answer = peer.finish(&ids[1]);
        checks.that("the second of a batch", answer["result"]["tools"].is_array(), &answer);
    }
    peer.close();
}

/// One connection may be used in both ways side by side.
pub fn both_eras(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "test_simple_text", "_meta": meta});
    let modern = peer.start_bare("tools/call", Some(params));
    let classic = peer.start_bare("tools/call", Some(json!({"name": "greet", "arguments": {"name": "old"}})));
    let (modern, classic) = (peer.finish(&modern), peer.finish(&classic));
    stage.checks.equal("the message decides", &modern["result"]["resultType"], "complete");
    stage.checks.lacks("for each alone", &classic["result"], &["resultType"]);
    stage.checks.equal("and both are answered", &classic["result"]["content"][0]["text"], "Hello, old!");
    peer.close();
}
