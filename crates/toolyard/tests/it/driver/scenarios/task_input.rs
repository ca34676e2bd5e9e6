//! Tasks that request input, removed task methods and unknown task ids.

use super::input_required::accept;
use super::tasks::{capable_client, create, is_ack, wait, wait_for};
use crate::driver::context::ScenarioContext;
use serde_json::{Value, json};

pub fn input(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let checks = &context.checks;
    let asking = |now: &Value| now["status"] == "input_required";
    let task = create(context, &mut client, "confirm_delete", json!({"filename": "mrtr.txt"}));
    let now = wait_for(&mut client, &task, asking);
    checks.equal("a task that requests input has that status", &now["status"], "input_required");
    let questions = now["inputRequests"].as_object().cloned().unwrap_or_default();
    checks.equal("its question", &json!(questions.len()), 1);
    for question in questions.values() {
        checks.equal("is for a person", &question["method"], "elicitation/create");
        checks.equal("with its message", &question["params"]["message"], "Delete mrtr.txt?");
    }
    let answers: Value =
        questions.keys().map(|key| (key.clone(), accept(json!({"confirm": true})))).collect();
    let ack = client.result("tasks/update", json!({"taskId": task, "inputResponses": answers}));
    is_ack(context, &ack);
    let end = wait(&mut client, &task);
    checks.equal("it goes on to its end", &end["status"], "completed");
    checks.equal("with the answer", &end["result"]["content"][0]["text"], "Deleted");
    checks.lacks("and no question left", &end, &["inputRequests"]);
    partly(context);
    client.close();
}

fn partly(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let task = create(context, &mut client, "multi_input", json!({}));
    let count = |now: &Value| now["inputRequests"].as_object().map_or(0, |all| all.len());
    let now = wait_for(&mut client, &task, |now| now["status"] == "input_required" && count(now) == 2);
    context.checks.equal("two questions", &json!(count(&now)), 2);
    let keys: Vec<String> =
        now["inputRequests"].as_object().into_iter().flat_map(|all| all.keys().cloned()).collect();
    for (nth, key) in keys.iter().enumerate() {
        let answers = json!({key.as_str(): accept(json!({"name": format!("partial-{nth}")}))});
        let ack = client.result("tasks/update", json!({"taskId": task, "inputResponses": answers}));
        is_ack(context, &ack);
        if nth == 0 {
            let now = client.result("tasks/get", json!({"taskId": task}));
            context.checks.equal("one answer is not enough", &now["status"], "input_required");
            context.checks.lacks("what is answered is gone", &now["inputRequests"], &[key]);
            context.checks.that(
                "the other is still asked",
                now["inputRequests"].get(&keys[1]).is_some(),
                &now,
            );
        }
    }
    let end = wait(&mut client, &task);
    context.checks.equal("both are", &end["status"], "completed");
    let text = end["result"]["content"][0]["text"].as_str().unwrap_or_default();
    context.checks.that("and both are used", text.contains("partial-0") && text.contains("partial-1"), &end);
    client.close();
}

pub fn dispatch(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let checks = &context.checks;
    for method in ["tasks/result", "tasks/list"] {
        let answer = client.request(method, json!({"taskId": "x"}));
        checks.refused(&format!("{method} is gone"), &answer, -32601);
    }
    let task = create(context, &mut client, "failing_job", json!({}));
    let now = client.result("tasks/get", json!({"taskId": task}));
    checks.equal("a task exists when its id is returned", &now["taskId"], task);
    checks.equal("and its state is a complete result", &now["resultType"], "complete");
    let params =
        json!({"name": "greet", "arguments": {"name": "hint"}, "task": {"ttl": 60_000, "pollInterval": 100}});
    let result = client.result("tools/call", params);
    checks.equal("a hint of the client makes no task", &result["resultType"], "complete");
    checks.lacks("of what is none", &result, &["taskId"]);
    checks.equal("it is answered", &result["content"][0]["text"], "Hello, hint!");
    let result = client.call("slow_compute", json!({"seconds": 0}));
    let either =
        result["content"].is_array() || (result["resultType"] == "task" && result["taskId"].is_string());
    checks.that("what is done at once may be a task or not", either, &result);
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let params = json!({"taskId": "tasks-conformance-nonexistent-12345", "inputResponses": {}});
        let answer = client.request(method, params);
        checks.refused(&format!("{method} of no task"), &answer, -32602);
    }
    let task = create(context, &mut client, "confirm_delete", json!({"filename": "rt.txt"}));
    wait_for(&mut client, &task, |now| now["status"] == "input_required");
    let params = json!({"taskId": task, "inputResponses": {"unknown-key": {"action": "cancel"}}});
    let ack = client.result("tasks/update", params);
    is_ack(context, &ack);
    let now = client.result("tasks/get", json!({"taskId": task}));
    checks.equal("an answer to nothing changes nothing", &now["status"], "input_required");
    is_ack(context, &client.result("tasks/cancel", json!({"taskId": task})));
    checks.equal("what asks can be cancelled", &wait(&mut client, &task)["status"], "cancelled");
    client.close();
}

/// A tool that asks first and becomes a task afterwards.
pub fn composition(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let checks = &context.checks;
    let first = client.call("test_tool_with_task", json!({}));
    checks.equal("it asks first", &first["resultType"], "input_required");
    checks.lacks("and is no task yet", &first, &["taskId"]);
    checks.that("for a name", first["inputRequests"]["user_name"].is_object(), &first);
    let answers = json!({"user_name": accept(json!({"name": "Alice"}))});
    let mut params = json!({"name": "test_tool_with_task", "arguments": {}, "inputResponses": answers});
    if first["requestState"].is_string() {
        params["requestState"] = first["requestState"].clone();
    }
    let created = client.result("tools/call", params);
    checks.equal("then it is a task", &created["resultType"], "task");
    checks.lacks("and asks no more", &created, &["requestState", "inputRequests"]);
    let end = wait(&mut client, &created["taskId"]);
    checks.equal("that ends", &end["status"], "completed");
    let text = end["result"]["content"][0]["text"].as_str().unwrap_or_default();
    checks.that("with the answer in its result", text.contains("Alice"), &end);
    client.close();
}
