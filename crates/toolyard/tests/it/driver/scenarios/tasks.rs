//! The tasks extension: calls that go on by themselves.

use crate::driver::peer::Peer;
use crate::driver::stage::Stage;
use crate::support::PATIENCE;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

pub fn lifecycle(stage: &Stage) {
    let mut peer = willing(stage);
    let checks = &stage.checks;
    let greeting = peer.call("greet", json!({"name": "tasks"}));
    checks.equal("a quick tool is no task", &greeting["resultType"], "complete");
    checks.lacks("and has no id", &greeting, &["taskId"]);
    checks.equal("but an answer", &greeting["content"][0]["text"], "Hello, tasks!");
    let task = create(stage, &mut peer, "slow_compute", json!({"seconds": 2}));
    let now = peer.result("tasks/get", json!({"taskId": task}));
    checks.equal("it can be asked for", &now["taskId"], task.clone());
    checks.equal("while it works", &now["status"], "working");
    checks.lacks("without an end yet", &now, &["result", "error", "inputRequests"]);
    let end = wait(&mut peer, &task);
    checks.equal("it is completed", &end["status"], "completed");
    checks.equal("the result is inside", &end["result"]["content"][0]["text"], "Computed for 2 s");
    let later = end["lastUpdatedAt"].as_str() >= now["lastUpdatedAt"].as_str();
    checks.that("the time of the last change goes on", later, &end);
    let task = create(stage, &mut peer, "failing_job", json!({}));
    let end = wait(&mut peer, &task);
    checks.equal("a tool that fails has completed", &end["status"], "completed");
    checks.equal("with an error for the model", &end["result"]["isError"], true);
    let task = create(stage, &mut peer, "protocol_error_job", json!({}));
    let end = wait(&mut peer, &task);
    checks.equal("an error of the protocol is a failure", &end["status"], "failed");
    checks.that("with a code", end["error"]["code"].is_i64(), &end);
    checks.that("and a message", end["error"]["message"].is_string(), &end);
    checks.lacks("and no result", &end, &["result"]);
    cancelling(stage, &mut peer);
    peer.close();
}

fn cancelling(stage: &Stage, peer: &mut Peer) {
    let task = create(stage, peer, "slow_compute", json!({"seconds": 60}));
    let ack = peer.result("tasks/cancel", json!({"taskId": task}));
    is_ack(stage, &ack);
    let end = wait(peer, &task);
    stage.checks.equal("it ends as cancelled", &end["status"], "cancelled");
    stage.checks.lacks("without a result", &end, &["result"]);
    let ack = peer.result("tasks/cancel", json!({"taskId": task}));
    is_ack(stage, &ack);
    let task = create(stage, peer, "slow_compute", json!({"seconds": 0}));
    wait(peer, &task);
    let ack = peer.result("tasks/cancel", json!({"taskId": task}));
    is_ack(stage, &ack);
    let end = peer.result("tasks/get", json!({"taskId": task}));
    stage.checks.equal("what has ended stays as it is", &end["status"], "completed");
}

pub fn capability_negotiation(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let discovered = peer.result("server/discover", json!({}));
    stage.checks.that(
        "the extension is declared",
        discovered["capabilities"]["extensions"][EXTENSION].is_object(),
        &discovered,
    );
    stage.checks.lacks("and not as before", &discovered["capabilities"], &["tasks"]);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let answer = peer.request(method, json!({"taskId": "gate-test", "inputResponses": {}}));
        stage.checks.refused(&format!("{method} without the extension"), &answer, -32021);
    }
    let result = peer.call("slow_compute", json!({"seconds": 0}));
    stage.checks.equal("whoever does not know tasks waits", &result["resultType"], "complete");
    stage.checks.lacks("and sees none", &result, &["taskId", "task"]);
    stage.checks.equal("but the result", &result["content"][0]["text"], "Computed for 0 s");
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}}});
    let result = peer
        .result("tools/call", json!({"name": "slow_compute", "arguments": {"seconds": 1}, "_meta": meta}));
    stage.checks.equal("each request says it anew", &result["resultType"], "task");
    stage.checks.that("with an id", result["taskId"].is_string(), &result);
    stage.checks.lacks("flat", &result, &["task"]);
    peer.close();
}

pub fn wire_fields(stage: &Stage) {
    let mut peer = willing(stage);
    let created = peer.call("slow_compute", json!({"seconds": 1}));
    let positive = |value: &Value| value.as_u64().is_some_and(|n| n > 0);
    stage.checks.that(
        "how long it is kept",
        created["ttlMs"] == Value::Null || positive(&created["ttlMs"]),
        &created,
    );
    stage.checks.that("by that name", created.get("ttlMs").is_some(), &created);
    let interval = created.get("pollIntervalMs");
    stage.checks.that("how often to ask", interval.is_none_or(positive), &created);
    stage.checks.lacks("and no old names", &created, &["ttl", "pollInterval"]);
    let task = created["taskId"].clone();
    wait(&mut peer, &task);
    std::thread::sleep(Duration::from_millis(500));
    let kept = peer.result("tasks/get", json!({"taskId": task}));
    stage.checks.equal("it is kept", &kept["taskId"], task);
    stage.checks.lacks(
        "no old marks in the result",
        &kept["result"]["_meta"],
        &["io.modelcontextprotocol/related-task"],
    );
    peer.close();
}

pub fn no_request_state(stage: &Stage) {
    let mut peer = willing(stage);
    let created = peer.call("slow_compute", json!({"seconds": 60}));
    stage.checks.lacks("a task has no state to send back", &created, &["requestState"]);
    let task = created["taskId"].clone();
    let now = peer.result("tasks/get", json!({"taskId": task}));
    stage.checks.lacks("nor later", &now, &["requestState"]);
    peer.result("tasks/cancel", json!({"taskId": task}));
    let end = wait(&mut peer, &task);
    stage.checks.lacks("nor at its end", &end, &["requestState"]);
    peer.close();
}

pub fn required_task(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let answer = peer.request("tools/call", json!({"name": "failing_job", "arguments": {}}));
    stage.checks.refused("a tool that is always a task", &answer, -32021);
    let needed = &answer["error"]["data"]["requiredCapabilities"];
    stage.checks.equal("what is needed is named", needed, json!({"extensions": {EXTENSION: {}}}));
    peer.close();
}

/// A client that knows tasks and can answer.
pub fn willing<'a>(stage: &'a Stage) -> Peer<'a> {
    stage.connect(json!({"elicitation": {}, "sampling": {}, "extensions": {EXTENSION: {}}}))
}

/// Calls a tool that must become a task; its id.
pub fn create(stage: &Stage, peer: &mut Peer, tool: &str, arguments: Value) -> Value {
    let created = peer.call(tool, arguments);
    stage.checks.equal("it is a task", &created["resultType"], "task");
    stage.checks.that("with an id", created["taskId"].as_str().is_some_and(|id| !id.is_empty()), &created);
    let known = ["working", "input_required", "completed", "cancelled", "failed"];
    let status = created["status"].as_str().unwrap_or_default();
    stage.checks.that("and a status", known.contains(&status), &created);
    stage.checks.lacks(
        "flat, and without what comes later",
        &created,
        &["task", "result", "error", "inputRequests", "requestState"],
    );
    let time = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        text.len() >= 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z')
    };
    stage.checks.that("with times", time(&created["createdAt"]) && time(&created["lastUpdatedAt"]), &created);
    created["taskId"].clone()
}

/// What is acknowledged only.
pub fn is_ack(stage: &Stage, ack: &Value) {
    stage.checks.equal("an acknowledgement", &ack["resultType"], "complete");
    stage.checks.lacks("and nothing else", ack, &["taskId", "status", "result", "error", "inputRequests"]);
}

/// Asks until the task has ended; what it says then.
pub fn wait(peer: &mut Peer, task: &Value) -> Value {
    wait_for(peer, task, |now| matches!(now["status"].as_str(), Some("completed" | "cancelled" | "failed")))
}

pub fn wait_for(peer: &mut Peer, task: &Value, done: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = peer.request("tasks/get", json!({"taskId": task}))["result"].take();
        if done(&now) || now.is_null() || Instant::now() > until {
            return now;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
