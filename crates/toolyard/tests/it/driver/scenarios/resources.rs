//! Resources: lists, contents, templates, subscriptions, and the hints for caches.

use crate::driver::stage::Stage;
use serde_json::{Value, json};
use std::time::Duration;

const WATCHED: &str = "test://watched-resource";
const UPDATED: &str = "notifications/resources/updated";

pub fn list(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let listed = peer.result("resources/list", json!({}));
    let resources = listed["resources"].as_array().cloned().unwrap_or_default();
    for uri in ["test://static-text", "test://static-binary", "test://watched-resource"] {
        stage.checks.that(
            &format!("{uri} is listed"),
            resources.iter().any(|one| one["uri"] == uri),
            &listed,
        );
    }
    for one in &resources {
        stage.checks.that(
            "a resource has an address",
            one["uri"].as_str().is_some_and(|uri| uri.contains(':')),
            one,
        );
        stage.checks.that("and a name", one["name"].as_str().is_some_and(|name| !name.is_empty()), one);
        stage.checks.that("templates are not among them", !one["uri"].to_string().contains('{'), one);
    }
    peer.close();
}

pub fn read_text(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let result = peer.result("resources/read", json!({"uri": "test://static-text"}));
    let content = &result["contents"][0];
    stage.checks.equal("its address", &content["uri"], "test://static-text");
    stage.checks.equal("its type", &content["mimeType"], "text/plain");
    stage.checks.equal("its text", &content["text"], "This is the content of the static text resource.");
    peer.close();
}

pub fn read_binary(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let result = peer.result("resources/read", json!({"uri": "test://static-binary"}));
    let content = &result["contents"][0];
    stage.checks.equal("its address", &content["uri"], "test://static-binary");
    stage.checks.equal("its type", &content["mimeType"], "image/png");
    let blob = content["blob"].as_str().unwrap_or_default();
    stage.checks.that("its bytes", blob.starts_with("iVBORw0KGgo"), content);
    stage.checks.lacks("not as a text", content, &["text"]);
    peer.close();
}

pub fn read_template(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let listed = peer.result("resources/templates/list", json!({}));
    let templates = listed["resourceTemplates"].as_array().cloned().unwrap_or_default();
    let known = templates.iter().any(|one| one["uriTemplate"] == "test://template/{id}/data");
    stage.checks.that("the template is listed", known, &listed);
    for id in ["123", "abc-9"] {
        let uri = format!("test://template/{id}/data");
        let result = peer.result("resources/read", json!({"uri": uri}));
        let content = &result["contents"][0];
        stage.checks.equal("the address that was asked for", &content["uri"], uri);
        stage.checks.equal("its type", &content["mimeType"], "application/json");
        let inner = content["text"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let expected = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
        stage.checks.equal("what was put in", &json!(inner), expected);
    }
    peer.close();
}

pub fn subscribe(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let result = peer.result("resources/subscribe", json!({"uri": WATCHED}));
    stage.checks.equal("nothing comes back", &result, json!({}));
    stage.yard.file("watched.txt", "Changed once.");
    let told = peer.hear(UPDATED, 0);
    stage.checks.equal("a change is told", &told["params"]["uri"], WATCHED);
    let read = peer.result("resources/read", json!({"uri": WATCHED}));
    stage.checks.equal("and is there", &read["contents"][0]["text"], "Changed once.");
    peer.close();
}

pub fn unsubscribe(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let watched = json!({"uri": WATCHED});
    stage.checks.equal("on", &peer.result("resources/subscribe", watched.clone()), json!({}));
    stage.checks.equal("off", &peer.result("resources/unsubscribe", watched), json!({}));
    stage.yard.file("watched.txt", "Changed unseen.");
    peer.listen(Duration::from_millis(1000));
    let told = peer.notifications(UPDATED);
    stage.checks.that("no change is told any more", told.is_empty(), &json!(told));
    peer.close();
}

/// The same without a session.
pub fn updates(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let wishes = json!({"resourceSubscriptions": [WATCHED]});
    let id = peer.start("subscriptions/listen", json!({"notifications": wishes}));
    let first = peer.hear("notifications/subscriptions/acknowledged", 0);
    stage.checks.equal("the address is taken", &first["params"]["notifications"], wishes);
    stage.yard.file("watched.txt", "Changed for a stream.");
    let told = peer.hear(UPDATED, 0);
    stage.checks.equal("a change is told", &told["params"]["uri"], WATCHED);
    let tag = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    stage.checks.equal("on its stream", tag, id);
    peer.close();
}

pub fn not_found(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let uri = "test://nonexistent-resource-for-conformance-testing";
    let answer = peer.request("resources/read", json!({"uri": uri}));
    stage.checks.lacks("nothing that looks like a content", &answer, &["result"]);
    stage.checks.refused("no such resource", &answer, -32602);
    stage.checks.equal("the address is named", &answer["error"]["data"]["uri"], uri);
    peer.close();
}

pub fn caching(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let listed = peer.result("resources/list", json!({}));
    let first = listed["resources"][0]["uri"].clone();
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": first})),
    ] {
        let result = peer.result(method, params);
        stage.checks.that(&format!("{method} says for how long"), result["ttlMs"].is_u64(), &result);
        let scope = result["cacheScope"].as_str();
        stage.checks.that(
            &format!("{method} says for whom"),
            matches!(scope, Some("public" | "private")),
            &result,
        );
    }
    peer.close();
}
