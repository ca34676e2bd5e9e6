//! Resources: lists, contents, templates, subscriptions, and the hints for caches.

use crate::driver::context::ScenarioContext;
use serde_json::{Value, json};
use std::time::Duration;

const WATCHED: &str = "test://watched-resource";
const UPDATED: &str = "notifications/resources/updated";

pub fn list(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let listed = client.result("resources/list", json!({}));
    let resources = listed["resources"].as_array().cloned().unwrap_or_default();
    for uri in ["test://static-text", "test://static-binary", "test://watched-resource"] {
        context.checks.that(
            &format!("{uri} is listed"),
            resources.iter().any(|one| one["uri"] == uri),
            &listed,
        );
    }
    for one in &resources {
        context.checks.that(
            "a resource has an address",
            one["uri"].as_str().is_some_and(|uri| uri.contains(':')),
            one,
        );
        context.checks.that("and a name", one["name"].as_str().is_some_and(|name| !name.is_empty()), one);
        context.checks.that("templates are not among them", !one["uri"].to_string().contains('{'), one);
    }
    client.close();
}

pub fn read_text(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let result = client.result("resources/read", json!({"uri": "test://static-text"}));
    let content = &result["contents"][0];
    context.checks.equal("its address", &content["uri"], "test://static-text");
    context.checks.equal("its type", &content["mimeType"], "text/plain");
    context.checks.equal("its text", &content["text"], "This is the content of the static text resource.");
    client.close();
}

pub fn read_binary(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let result = client.result("resources/read", json!({"uri": "test://static-binary"}));
    let content = &result["contents"][0];
    context.checks.equal("its address", &content["uri"], "test://static-binary");
    context.checks.equal("its type", &content["mimeType"], "image/png");
    let blob = content["blob"].as_str().unwrap_or_default();
    context.checks.that("its bytes", blob.starts_with("iVBORw0KGgo"), content);
    context.checks.lacks("not as a text", content, &["text"]);
    client.close();
}

pub fn read_template(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let listed = client.result("resources/templates/list", json!({}));
    let templates = listed["resourceTemplates"].as_array().cloned().unwrap_or_default();
    let known = templates.iter().any(|one| one["uriTemplate"] == "test://template/{id}/data");
    context.checks.that("the template is listed", known, &listed);
    for id in ["123", "abc-9"] {
        let uri = format!("test://template/{id}/data");
        let result = client.result("resources/read", json!({"uri": uri}));
        let content = &result["contents"][0];
        context.checks.equal("the address that was asked for", &content["uri"], uri);
        context.checks.equal("its type", &content["mimeType"], "application/json");
        let inner = content["text"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let expected = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
        context.checks.equal("what was put in", &json!(inner), expected);
    }
    client.close();
}

pub fn subscribe(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let result = client.result("resources/subscribe", json!({"uri": WATCHED}));
    context.checks.equal("nothing comes back", &result, json!({}));
    context.yard.file("watched.txt", "Changed once.");
    let notification = client.wait_for_notification(UPDATED, 0);
    context.checks.equal("a change is sent to the subscriber", &notification["params"]["uri"], WATCHED);
    let read = client.result("resources/read", json!({"uri": WATCHED}));
    context.checks.equal("and is there", &read["contents"][0]["text"], "Changed once.");
    client.close();
}

pub fn unsubscribe(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let watched = json!({"uri": WATCHED});
    context.checks.equal("on", &client.result("resources/subscribe", watched.clone()), json!({}));
    context.checks.equal("off", &client.result("resources/unsubscribe", watched), json!({}));
    context.yard.file("watched.txt", "Changed unseen.");
    client.listen(Duration::from_millis(1000));
    let notification = client.notifications(UPDATED);
    context.checks.that("no change is sent any more", notification.is_empty(), &json!(notification));
    client.close();
}

/// The same without a session.
pub fn updates(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let wishes = json!({"resourceSubscriptions": [WATCHED]});
    let id = client.start("subscriptions/listen", json!({"notifications": wishes}));
    let first = client.wait_for_notification("notifications/subscriptions/acknowledged", 0);
    context.checks.equal("the address is taken", &first["params"]["notifications"], wishes);
    context.yard.file("watched.txt", "Changed for a stream.");
    let notification = client.wait_for_notification(UPDATED, 0);
    context.checks.equal("a change is sent to the subscriber", &notification["params"]["uri"], WATCHED);
    let tag = &notification["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    context.checks.equal("on its stream", tag, id);
    client.close();
}

pub fn not_found(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let uri = "test://nonexistent-resource-for-conformance-testing";
    let answer = client.request("resources/read", json!({"uri": uri}));
    context.checks.lacks("nothing that looks like a content", &answer, &["result"]);
    context.checks.refused("no such resource", &answer, -32602);
    context.checks.equal("the address is named", &answer["error"]["data"]["uri"], uri);
    client.close();
}

pub fn caching(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let listed = client.result("resources/list", json!({}));
    let first = listed["resources"][0]["uri"].clone();
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": first})),
    ] {
        let result = client.result(method, params);
        context.checks.that(&format!("{method} says for how long"), result["ttlMs"].is_u64(), &result);
        let scope = result["cacheScope"].as_str();
        context.checks.that(
            &format!("{method} says for whom"),
            matches!(scope, Some("public" | "private")),
            &result,
        );
    }
    client.close();
}
