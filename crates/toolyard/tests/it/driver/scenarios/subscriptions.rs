//! Subscriptions to changes.

use crate::driver::client::McpClient;
use crate::driver::context::ScenarioContext;
use serde_json::{Value, json};
use std::time::Duration;

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";

pub fn acknowledged_tagged_and_filtered(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let id = subscribe(context, &mut client, &json!({"toolsListChanged": true}));
    client.call("test_trigger_tool_change", json!({}));
    let change = client.wait_for_notification(TOOLS_CHANGED, 0);
    context.checks.equal("a change has the id of its stream", tag(&change), id.clone());
    let narrow = subscribe(context, &mut client, &json!({"promptsListChanged": true}));
    client.received.clear();
    client.call("test_trigger_tool_change", json!({}));
    client.wait_for_notification(TOOLS_CHANGED, 0);
    client.listen(Duration::from_millis(700));
    let wrong: Vec<&Value> = client.received.iter().filter(|one| *tag(one) == narrow).collect();
    context.checks.that("what was not asked for does not come", wrong.is_empty(), &json!(wrong));
    client.notify("notifications/cancelled", json!({"requestId": id}));
    client.listen(Duration::from_millis(200));
    client.received.clear();
    client.call("test_trigger_tool_change", json!({}));
    client.listen(Duration::from_millis(700));
    let late = client.notifications(TOOLS_CHANGED);
    context.checks.that("after its end a stream is silent", late.is_empty(), &json!(late));
    client.call("test_trigger_tool_change", json!({}));
    // The next client of the same server must not see this change half done.
    client.listen(Duration::from_millis(700));
    client.close();
}

pub fn changed_lists(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let discovered = client.result("server/discover", json!({}));
    // What the change affects: the list of tools, the text of the prompt.
    let prompt = json!({"name": "test_changing_prompt"});
    for (capability, wish, trigger, change, (method, params)) in [
        ("tools", "toolsListChanged", "test_trigger_tool_change", TOOLS_CHANGED, ("tools/list", json!({}))),
        (
            "prompts",
            "promptsListChanged",
            "test_trigger_prompt_change",
            PROMPTS_CHANGED,
            ("prompts/get", prompt),
        ),
    ] {
        let announced = &discovered["capabilities"][capability]["listChanged"];
        context.checks.equal(&format!("changes of {capability} are announced"), announced, true);
        subscribe(context, &mut client, &json!({wish: true}));
        client.received.clear();
        let before = client.result(method, params.clone());
        client.call(trigger, json!({}));
        let received = client.wait_for_notification(change, 0);
        context.checks.equal("the change is sent", &received["method"], change);
        let after = client.result(method, params);
        context.checks.that("and is there", before != after, &after);
        client.call(trigger, json!({}));
        client.wait_for_notification(change, 1);
    }
    client.close();
}

/// In a session list changes are sent without a subscription.
pub fn changed_tools_in_a_session(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    client.call("test_trigger_tool_change", json!({}));
    let change = client.wait_for_notification(TOOLS_CHANGED, 0);
    context.checks.equal("the change is sent", &change["method"], TOOLS_CHANGED);
    client.call("test_trigger_tool_change", json!({}));
    client.wait_for_notification(TOOLS_CHANGED, 1);
    client.close();
}

/// The suite skips this one because it cannot listen. Every change of a task's state is sent on the stream.
pub fn task_states(context: &ScenarioContext) {
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = context.connect(tasks);
    let created = client.call("slow_compute", json!({"seconds": 1}));
    let task = created["taskId"].clone();
    let id = subscribe(context, &mut client, &json!({"taskIds": [task]}));
    let mut last = Value::Null;
    for nth in 0.. {
        last = client.wait_for_notification("notifications/tasks", nth);
        context.checks.always("it is that task", last["params"]["taskId"] == task, &last);
        context.checks.always("on that stream", *tag(&last) == id, &last);
        if last.is_null() || !matches!(last["params"]["status"].as_str(), Some("working")) {
            break;
        }
    }
    context.checks.equal("up to the end", &last["params"]["status"], "completed");
    let text = &last["params"]["result"]["content"][0]["text"];
    context.checks.equal("with the result", text, "Computed for 1 s");
    client.close();
    let mut client = context.connect(json!({}));
    let answer = client.request("subscriptions/listen", json!({"notifications": {"taskIds": [task]}}));
    context.checks.refused("not without the extension", &answer, -32021);
    client.close();
}

/// Opens a stream and reads its acknowledgement, which must be the first message.
fn subscribe(context: &ScenarioContext, client: &mut McpClient, wishes: &Value) -> Value {
    client.received.clear();
    let id = client.start("subscriptions/listen", json!({"notifications": wishes}));
    let first = client.wait_for_notification(ACKNOWLEDGED, 0);
    context.checks.equal("the stream begins with its acknowledgement", tag(&first), id.clone());
    context.checks.equal("nothing came before", &client.received[0]["method"], ACKNOWLEDGED);
    context.checks.equal("all that was wished for", &first["params"]["notifications"], wishes.clone());
    id
}

fn tag(message: &Value) -> &Value {
    &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
}
