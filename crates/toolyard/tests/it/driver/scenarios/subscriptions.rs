//! Streams of changes.

use crate::driver::peer::Peer;
use crate::driver::stage::Stage;
use serde_json::{Value, json};
use std::time::Duration;

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";

pub fn acknowledged_tagged_and_filtered(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let id = subscribe(stage, &mut peer, &json!({"toolsListChanged": true}));
    peer.call("test_trigger_tool_change", json!({}));
    let change = peer.hear(TOOLS_CHANGED, 0);
    stage.checks.equal("a change has the id of its stream", tag(&change), id.clone());
    let narrow = subscribe(stage, &mut peer, &json!({"promptsListChanged": true}));
    peer.heard.clear();
    peer.call("test_trigger_tool_change", json!({}));
    peer.hear(TOOLS_CHANGED, 0);
    peer.listen(Duration::from_millis(700));
    let wrong: Vec<&Value> = peer.heard.iter().filter(|one| *tag(one) == narrow).collect();
    stage.checks.that("what was not asked for does not come", wrong.is_empty(), &json!(wrong));
    peer.notify("notifications/cancelled", json!({"requestId": id}));
    peer.listen(Duration::from_millis(200));
    peer.heard.clear();
    peer.call("test_trigger_tool_change", json!({}));
    peer.listen(Duration::from_millis(700));
    let late = peer.notifications(TOOLS_CHANGED);
    stage.checks.that("after its end a stream is silent", late.is_empty(), &json!(late));
    peer.call("test_trigger_tool_change", json!({}));
    peer.close();
}

pub fn changed_lists(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let discovered = peer.result("server/discover", json!({}));
    // What differs after the change: which tools there are; what the prompt says.
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
        let told = &discovered["capabilities"][capability]["listChanged"];
        stage.checks.equal(&format!("changes of {capability} are told"), told, true);
        subscribe(stage, &mut peer, &json!({wish: true}));
        peer.heard.clear();
        let before = peer.result(method, params.clone());
        peer.call(trigger, json!({}));
        let heard = peer.hear(change, 0);
        stage.checks.equal("the change is told", &heard["method"], change);
        let after = peer.result(method, params);
        stage.checks.that("and is there", before != after, &after);
        peer.call(trigger, json!({}));
        peer.hear(change, 1);
    }
    peer.close();
}

/// In a session the change of the list comes by itself.
pub fn changed_tools_in_a_session(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    peer.call("test_trigger_tool_change", json!({}));
    let change = peer.hear(TOOLS_CHANGED, 0);
    stage.checks.equal("the change is told", &change["method"], TOOLS_CHANGED);
    peer.call("test_trigger_tool_change", json!({}));
    peer.hear(TOOLS_CHANGED, 1);
    peer.close();
}

/// The suite skips this one: it has no way to listen. A task tells every change of its state on the stream.
pub fn task_states(stage: &Stage) {
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut peer = stage.connect(tasks);
    let created = peer.call("slow_compute", json!({"seconds": 1}));
    let task = created["taskId"].clone();
    let id = subscribe(stage, &mut peer, &json!({"taskIds": [task]}));
    let mut last = Value::Null;
    for nth in 0.. {
        last = peer.hear("notifications/tasks", nth);
        stage.checks.always("it is that task", last["params"]["taskId"] == task, &last);
        stage.checks.always("on that stream", *tag(&last) == id, &last);
        if last.is_null() || !matches!(last["params"]["status"].as_str(), Some("working")) {
            break;
        }
    }
    stage.checks.equal("up to the end", &last["params"]["status"], "completed");
    let text = &last["params"]["result"]["content"][0]["text"];
    stage.checks.equal("with the result", text, "Computed for 1 s");
    peer.close();
    let mut peer = stage.connect(json!({}));
    let answer = peer.request("subscriptions/listen", json!({"notifications": {"taskIds": [task]}}));
    stage.checks.refused("not without the extension", &answer, -32021);
    peer.close();
}

/// Opens a stream and takes its acknowledgement, which must be the first thing on it.
fn subscribe(stage: &Stage, peer: &mut Peer, wishes: &Value) -> Value {
    peer.heard.clear();
    let id = peer.start("subscriptions/listen", json!({"notifications": wishes}));
    let first = peer.hear(ACKNOWLEDGED, 0);
    stage.checks.equal("the stream begins with its acknowledgement", tag(&first), id.clone());
    stage.checks.equal("nothing came before", &peer.heard[0]["method"], ACKNOWLEDGED);
    stage.checks.equal("all that was wished for", &first["params"]["notifications"], wishes.clone());
    id
}

fn tag(message: &Value) -> &Value {
    &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
}
