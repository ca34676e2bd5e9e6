//! 2026-07-28: every request says all there is to know. What only HTTP has (status codes, headers) is not here.

use super::subscriptions;
use crate::driver::peer::Peer;
use crate::driver::stage::Stage;
use serde_json::{Value, json};
use std::time::Duration;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

pub fn server_stateless(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    what_must_be_said(stage, &mut peer);
    let discovered = discovery(stage, &mut peer);
    versions(stage, &mut peer, &discovered);
    undeclared_capability(stage, &mut peer);
    removed_methods(stage, &mut peer);
    no_requests_of_the_server(stage, &mut peer);
    no_log_unless_asked(stage, &mut peer);
    peer.close();
    subscriptions::acknowledged_tagged_and_filtered(stage);
    subscriptions::changed_lists(stage);
}

fn what_must_be_said(stage: &Stage, peer: &mut Peer) {
    for (what, params) in [
        ("no _meta", json!({})),
        ("no version", json!({"_meta": {CAPABILITIES: {}}})),
        ("no capabilities", json!({"_meta": {VERSION: stage.revision}})),
        ("no object", json!({"_meta": {VERSION: stage.revision, CAPABILITIES: []}})),
    ] {
        let id = peer.start_bare("server/discover", Some(params));
        let answer = peer.finish(&id);
        stage.checks.refused(what, &answer, -32602);
        stage.checks.equal("the error has the request's id", &answer["id"], id);
    }
    let nameless = json!({"_meta": {VERSION: stage.revision, CAPABILITIES: {}}});
    let id = peer.start_bare("server/discover", Some(nameless));
    let answer = peer.finish(&id);
    stage.checks.that("a client need not give its name", answer["result"].is_object(), &answer);
}

fn discovery(stage: &Stage, peer: &mut Peer) -> Value {
    let result = peer.result("server/discover", json!({}));
    let versions = result["supportedVersions"].as_array().cloned().unwrap_or_default();
    stage.checks.that("its own revision is among them", versions.contains(&json!(stage.revision)), &result);
    stage.checks.equal("a result says what it is", &result["resultType"], "complete");
    let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    stage.checks.equal("the server has a name", &server["name"], "toolyard");
    stage.checks.that("and a version", server["version"].is_string(), server);
    let capabilities = &result["capabilities"];
    for (capability, method, member) in [
        ("tools", "tools/list", "tools"),
        ("prompts", "prompts/list", "prompts"),
        ("resources", "resources/list", "resources"),
    ] {
        let answer = peer.request(method, json!({}));
        if capabilities[capability].is_object() {
            let what = format!("{capability} are declared and there");
            stage.checks.that(&what, answer["result"][member].is_array(), &answer);
        } else {
            stage.checks.refused(&format!("{capability} are not declared and not there"), &answer, -32601);
        }
    }
    result
}

fn versions(stage: &Stage, peer: &mut Peer, discovered: &Value) {
    let params = json!({"_meta": {VERSION: "v999.0.0", CAPABILITIES: {}}});
    let id = peer.start_bare("server/discover", Some(params));
    let answer = peer.finish(&id);
    stage.checks.refused("an unknown revision", &answer, -32022);
    let data = &answer["error"]["data"];
    stage.checks.equal("it is repeated", &data["requested"], "v999.0.0");
    let known = |version: &Value| discovered["supportedVersions"].as_array().unwrap().contains(version);
    let supported = data["supported"].as_array();
    stage.checks.that(
        "and the known ones named",
        supported.is_some_and(|all| !all.is_empty() && all.iter().all(known)),
        data,
    );
}

fn undeclared_capability(stage: &Stage, peer: &mut Peer) {
    let answer = peer.request("tools/call", json!({"name": "test_missing_capability", "arguments": {}}));
    stage.checks.refused("what the client did not declare is not used", &answer, -32021);
    stage.checks.equal(
        "it is named",
        &answer["error"]["data"]["requiredCapabilities"],
        json!({"sampling": {}}),
    );
}

fn removed_methods(stage: &Stage, peer: &mut Peer) {
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "unknown/method",
    ] {
        let answer = peer.request(method, json!({}));
        stage.checks.refused(&format!("{method} is not there"), &answer, -32601);
    }
}

fn no_requests_of_the_server(stage: &Stage, peer: &mut Peer) {
    peer.capabilities = json!({"elicitation": {}});
    let result = peer.call("test_streaming_elicitation", json!({}));
    stage.checks.equal("a question is a result", &result["resultType"], "input_required");
    stage.checks.that("and never a request", peer.asked.is_empty(), &json!(peer.asked));
    peer.capabilities = json!({});
}

fn no_log_unless_asked(stage: &Stage, peer: &mut Peer) {
    let call = |meta: Value| json!({"name": "test_logging_tool", "arguments": {}, "_meta": meta});
    let level = "io.modelcontextprotocol/logLevel";
    for (meta, lines) in [(json!({}), 0), (json!({level: "info"}), 3), (json!({level: "warning"}), 0)] {
        peer.heard.clear();
        let result = peer.result("tools/call", call(meta.clone()));
        stage.checks.equal("the call ends", &result["resultType"], "complete");
        let said = peer.notifications("notifications/message");
        stage.checks.equal(&format!("lines with {meta}"), &json!(said.len()), lines);
    }
    peer.listen(Duration::from_millis(100));
}
