//! The tasks extension: calls that continue in the background.

use crate::driver::client::McpClient;
use crate::driver::context::ScenarioContext;
use crate::support::TIMEOUT;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

pub fn lifecycle(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let checks = &context.checks;
    let greeting = client.call("greet", json!({"name": "tasks"}));
    checks.equal("a quick tool is no task", &greeting["resultType"], "complete");
    checks.lacks("and has no id", &greeting, &["taskId"]);
    checks.equal("but an answer", &greeting["content"][0]["text"], "Hello, tasks!");
    let task = create(context, &mut client, "slow_compute", json!({"seconds": 2}));
    let now = client.result("tasks/get", json!({"taskId": task}));
    checks.equal("it can be asked for", &now["taskId"], task.clone());
    checks.equal("while it works", &now["status"], "working");
    checks.lacks("without an end yet", &now, &["result", "error", "inputRequests"]);
    let end = wait(&mut client, &task);
    checks.equal("it is completed", &end["status"], "completed");
    checks.equal("the result is inside", &end["result"]["content"][0]["text"], "Computed for 2 s");
    let later = end["lastUpdatedAt"].as_str() >= now["lastUpdatedAt"].as_str();
    checks.that("the time of the last change goes on", later, &end);
    let task = create(context, &mut client, "failing_job", json!({}));
    let end = wait(&mut client, &task);
    checks.equal("a tool that fails has completed", &end["status"], "completed");
    checks.equal("with an error for the model", &end["result"]["isError"], true);
    let task = create(context, &mut client, "protocol_error_job", json!({}));
    let end = wait(&mut client, &task);
    checks.equal("an error of the protocol is a failure", &end["status"], "failed");
    checks.that("with a code", end["error"]["code"].is_i64(), &end);
    checks.that("and a message", end["error"]["message"].is_string(), &end);
    checks.lacks("and no result", &end, &["result"]);
    cancelling(context, &mut client);
    client.close();
}

fn cancelling(context: &ScenarioContext, client: &mut McpClient) {
    let task = create(context, client, "slow_compute", json!({"seconds": 60}));
    let ack = client.result("tasks/cancel", json!({"taskId": task}));
    is_ack(context, &ack);
    let end = wait(client, &task);
    context.checks.equal("it ends as cancelled", &end["status"], "cancelled");
    context.checks.lacks("without a result", &end, &["result"]);
    let ack = client.result("tasks/cancel", json!({"taskId": task}));
    is_ack(context, &ack);
    let task = create(context, client, "slow_compute", json!({"seconds": 0}));
    wait(client, &task);
    let ack = client.result("tasks/cancel", json!({"taskId": task}));
    is_ack(context, &ack);
    let end = client.result("tasks/get", json!({"taskId": task}));
    context.checks.equal("what has ended stays as it is", &end["status"], "completed");
}

pub fn capability_negotiation(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let discovered = client.result("server/discover", json!({}));
    context.checks.that(
        "the extension is declared",
        discovered["capabilities"]["extensions"][EXTENSION].is_object(),
        &discovered,
    );
    context.checks.lacks("and not as before", &discovered["capabilities"], &["tasks"]);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let answer = client.request(method, json!({"taskId": "gate-test", "inputResponses": {}}));
        context.checks.refused(&format!("{method} without the extension"), &answer, -32021);
    }
    let result = client.call("slow_compute", json!({"seconds": 0}));
    context.checks.equal("a client without tasks gets the result", &result["resultType"], "complete");
    context.checks.lacks("and sees none", &result, &["taskId", "task"]);
    context.checks.equal("but the result", &result["content"][0]["text"], "Computed for 0 s");
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}}});
    let result = client
        .result("tools/call", json!({"name": "slow_compute", "arguments": {"seconds": 1}, "_meta": meta}));
    context.checks.equal("each request declares tasks itself", &result["resultType"], "task");
    context.checks.that("with an id", result["taskId"].is_string(), &result);
    context.checks.lacks("flat", &result, &["task"]);
    client.close();
}

pub fn wire_fields(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let created = client.call("slow_compute", json!({"seconds": 1}));
    let positive = |value: &Value| value.as_u64().is_some_and(|n| n > 0);
    context.checks.that(
        "the retention time",
        created["ttlMs"] == Value::Null || positive(&created["ttlMs"]),
        &created,
    );
    context.checks.that("by that name", created.get("ttlMs").is_some(), &created);
    let interval = created.get("pollIntervalMs");
    context.checks.that("the polling interval", interval.is_none_or(positive), &created);
    context.checks.lacks("no obsolete names", &created, &["ttl", "pollInterval"]);
    let task = created["taskId"].clone();
    wait(&mut client, &task);
    std::thread::sleep(Duration::from_millis(500));
    let retained = client.result("tasks/get", json!({"taskId": task}));
    context.checks.equal("it is retained", &retained["taskId"], task);
    context.checks.lacks(
        "no obsolete metadata in the result",
        &retained["result"]["_meta"],
        &["io.modelcontextprotocol/related-task"],
    );
    client.close();
}

pub fn no_request_state(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let created = client.call("slow_compute", json!({"seconds": 60}));
    context.checks.lacks("a task has no state to send back", &created, &["requestState"]);
    let task = created["taskId"].clone();
    let now = client.result("tasks/get", json!({"taskId": task}));
    context.checks.lacks("nor later", &now, &["requestState"]);
    client.result("tasks/cancel", json!({"taskId": task}));
    let end = wait(&mut client, &task);
    context.checks.lacks("nor at its end", &end, &["requestState"]);
    client.close();
}

pub fn required_task(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let answer = client.request("tools/call", json!({"name": "failing_job", "arguments": {}}));
    context.checks.refused("a tool that is always a task", &answer, -32021);
    let needed = &answer["error"]["data"]["requiredCapabilities"];
    context.checks.equal("what is needed is named", needed, json!({"extensions": {EXTENSION: {}}}));
    client.close();
}

/// A client that supports tasks and input requests.
pub fn capable_client<'a>(context: &'a ScenarioContext) -> McpClient<'a> {
    context.connect(json!({"elicitation": {}, "sampling": {}, "extensions": {EXTENSION: {}}}))
}

/// Calls a tool that must become a task; returns the task's id.
pub fn create(context: &ScenarioContext, client: &mut McpClient, tool: &str, arguments: Value) -> Value {
    let created = client.call(tool, arguments);
    context.checks.equal("it is a task", &created["resultType"], "task");
    context.checks.that("with an id", created["taskId"].as_str().is_some_and(|id| !id.is_empty()), &created);
    let known = ["working", "input_required", "completed", "cancelled", "failed"];
    let status = created["status"].as_str().unwrap_or_default();
    context.checks.that("and a status", known.contains(&status), &created);
    context.checks.lacks(
        "flat, and without what comes later",
        &created,
        &["task", "result", "error", "inputRequests", "requestState"],
    );
    let time = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        text.len() >= 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z')
    };
    context.checks.that(
        "with times",
        time(&created["createdAt"]) && time(&created["lastUpdatedAt"]),
        &created,
    );
    created["taskId"].clone()
}

/// Checks an empty acknowledgement.
pub fn is_ack(context: &ScenarioContext, ack: &Value) {
    context.checks.equal("an acknowledgement", &ack["resultType"], "complete");
    context.checks.lacks("and nothing else", ack, &["taskId", "status", "result", "error", "inputRequests"]);
}

/// Polls until the task has ended; returns its last state.
pub fn wait(client: &mut McpClient, task: &Value) -> Value {
    wait_for(client, task, |now| matches!(now["status"].as_str(), Some("completed" | "cancelled" | "failed")))
}

pub fn wait_for(client: &mut McpClient, task: &Value, done: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + TIMEOUT;
    loop {
        let now = client.request("tasks/get", json!({"taskId": task}))["result"].take();
        if done(&now) || now.is_null() || Instant::now() > until {
            return now;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
