//! 2026-07-28: every request is self-contained. HTTP status codes and headers are not tested here.

use super::subscriptions;
use crate::driver::client::McpClient;
use crate::driver::context::ScenarioContext;
use serde_json::{Value, json};
use std::time::Duration;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

pub fn server_stateless(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    required_metadata(context, &mut client);
    let discovered = discovery(context, &mut client);
    versions(context, &mut client, &discovered);
    undeclared_capability(context, &mut client);
    removed_methods(context, &mut client);
    no_requests_of_the_server(context, &mut client);
    no_log_unless_asked(context, &mut client);
    client.close();
    subscriptions::acknowledged_tagged_and_filtered(context);
    subscriptions::changed_lists(context);
}

fn required_metadata(context: &ScenarioContext, client: &mut McpClient) {
    for (what, params) in [
        ("no _meta", json!({})),
        ("no version", json!({"_meta": {CAPABILITIES: {}}})),
        ("no capabilities", json!({"_meta": {VERSION: context.revision}})),
        ("no object", json!({"_meta": {VERSION: context.revision, CAPABILITIES: []}})),
    ] {
        let id = client.start_bare("server/discover", Some(params));
        let answer = client.finish(&id);
        context.checks.refused(what, &answer, -32602);
        context.checks.equal("the error has the request's id", &answer["id"], id);
    }
    let nameless = json!({"_meta": {VERSION: context.revision, CAPABILITIES: {}}});
    let id = client.start_bare("server/discover", Some(nameless));
    let answer = client.finish(&id);
    context.checks.that("a client need not give its name", answer["result"].is_object(), &answer);
}

fn discovery(context: &ScenarioContext, client: &mut McpClient) -> Value {
    let result = client.result("server/discover", json!({}));
    let versions = result["supportedVersions"].as_array().cloned().unwrap_or_default();
    context.checks.that(
        "its own revision is among them",
        versions.contains(&json!(context.revision)),
        &result,
    );
    context.checks.equal("a result has a type", &result["resultType"], "complete");
    let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    context.checks.equal("the server has a name", &server["name"], "toolyard");
    context.checks.that("and a version", server["version"].is_string(), server);
    let capabilities = &result["capabilities"];
    for (capability, method, member) in [
        ("tools", "tools/list", "tools"),
        ("prompts", "prompts/list", "prompts"),
        ("resources", "resources/list", "resources"),
    ] {
        let answer = client.request(method, json!({}));
        if capabilities[capability].is_object() {
            let what = format!("{capability} are declared and there");
            context.checks.that(&what, answer["result"][member].is_array(), &answer);
        } else {
            context.checks.refused(&format!("{capability} are not declared and not there"), &answer, -32601);
        }
    }
    result
}

fn versions(context: &ScenarioContext, client: &mut McpClient, discovered: &Value) {
    let params = json!({"_meta": {VERSION: "v999.0.0", CAPABILITIES: {}}});
    let id = client.start_bare("server/discover", Some(params));
    let answer = client.finish(&id);
    context.checks.refused("an unknown revision", &answer, -32022);
    let data = &answer["error"]["data"];
    context.checks.equal("it is repeated", &data["requested"], "v999.0.0");
    let known = |version: &Value| discovered["supportedVersions"].as_array().unwrap().contains(version);
    let supported = data["supported"].as_array();
    context.checks.that(
        "and the known ones named",
        supported.is_some_and(|all| !all.is_empty() && all.iter().all(known)),
        data,
    );
}

fn undeclared_capability(context: &ScenarioContext, client: &mut McpClient) {
    let answer = client.request("tools/call", json!({"name": "test_missing_capability", "arguments": {}}));
    context.checks.refused("what the client did not declare is not used", &answer, -32021);
    context.checks.equal(
        "it is named",
        &answer["error"]["data"]["requiredCapabilities"],
        json!({"sampling": {}}),
    );
}

fn removed_methods(context: &ScenarioContext, client: &mut McpClient) {
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "unknown/method",
    ] {
        let answer = client.request(method, json!({}));
        context.checks.refused(&format!("{method} is not there"), &answer, -32601);
    }
}

fn no_requests_of_the_server(context: &ScenarioContext, client: &mut McpClient) {
    client.capabilities = json!({"elicitation": {}});
    let result = client.call("test_streaming_elicitation", json!({}));
    context.checks.equal("a question is a result", &result["resultType"], "input_required");
    context.checks.that(
        "and never a request",
        client.server_requests.is_empty(),
        &json!(client.server_requests),
    );
    client.capabilities = json!({});
}

fn no_log_unless_asked(context: &ScenarioContext, client: &mut McpClient) {
    let call = |meta: Value| json!({"name": "test_logging_tool", "arguments": {}, "_meta": meta});
    let level = "io.modelcontextprotocol/logLevel";
    for (meta, lines) in [(json!({}), 0), (json!({level: "info"}), 3), (json!({level: "warning"}), 0)] {
        client.received.clear();
        let result = client.result("tools/call", call(meta.clone()));
        context.checks.equal("the call ends", &result["resultType"], "complete");
        let said = client.notifications("notifications/message");
        context.checks.equal(&format!("lines with {meta}"), &json!(said.len()), lines);
    }
    client.listen(Duration::from_millis(100));
}
