//! Prompts and the completion of their arguments.

use crate::driver::stage::Stage;
use serde_json::{Value, json};

pub fn list(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let listed = peer.result("prompts/list", json!({}));
    let prompts = listed["prompts"].as_array().cloned().unwrap_or_default();
    let of = |name: &str| prompts.iter().find(|one| one["name"] == name).cloned().unwrap_or_default();
    for name in [
        "test_simple_prompt",
        "test_prompt_with_arguments",
        "test_prompt_with_embedded_resource",
        "test_prompt_with_image",
    ] {
        stage.checks.equal("a prompt is listed", &of(name)["name"], name);
    }
    for one in &prompts {
        stage.checks.that(
            "a prompt is described",
            one["description"].as_str().is_some_and(|text| !text.is_empty()),
            one,
        );
    }
    let arguments = of("test_prompt_with_arguments")["arguments"].clone();
    for (at, name) in ["arg1", "arg2"].into_iter().enumerate() {
        stage.checks.equal("an argument is listed", &arguments[at]["name"], name);
        stage.checks.equal("and needed", &arguments[at]["required"], true);
    }
    peer.close();
}

pub fn simple(stage: &Stage) {
    let text = "This is a simple prompt for testing.";
    let messages = get(stage, json!({"name": "test_simple_prompt"}));
    stage.checks.equal(
        "one message",
        &messages,
        json!([{"role": "user", "content": {"type": "text", "text": text}}]),
    );
}

pub fn with_arguments(stage: &Stage) {
    let arguments = json!({"arg1": "testValue1", "arg2": "test 'Value' 2"});
    let messages = get(stage, json!({"name": "test_prompt_with_arguments", "arguments": arguments}));
    let text = "Prompt with arguments: arg1='testValue1', arg2='test 'Value' 2'";
    stage.checks.equal("the arguments are put in", &messages[0]["content"]["text"], text);
    let mut peer = stage.connect(json!({}));
    let answer = peer
        .request("prompts/get", json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": "a"}}));
    stage.checks.refused("an argument that is needed is missing", &answer, -32602);
    let answer = peer.request("prompts/get", json!({"name": "no_such_prompt"}));
    stage.checks.refused("no such prompt", &answer, -32602);
    peer.close();
}

pub fn embedded_resource(stage: &Stage) {
    let arguments = json!({"resourceUri": "test://example-resource"});
    let messages = get(stage, json!({"name": "test_prompt_with_embedded_resource", "arguments": arguments}));
    let content = &messages[0]["content"];
    stage.checks.equal("a resource", &content["type"], "resource");
    stage.checks.equal("the one that was asked for", &content["resource"]["uri"], "test://example-resource");
    stage.checks.equal(
        "with its text",
        &content["resource"]["text"],
        "Embedded resource content for testing.",
    );
    stage.checks.equal("and a text", &messages[1]["content"]["type"], "text");
}

pub fn with_image(stage: &Stage) {
    let messages = get(stage, json!({"name": "test_prompt_with_image"}));
    let content = &messages[0]["content"];
    stage.checks.equal("an image", &content["type"], "image");
    stage.checks.equal("of its type", &content["mimeType"], "image/png");
    stage.checks.that(
        "with data",
        content["data"].as_str().is_some_and(|data| data.starts_with("iVBORw0KGgo")),
        content,
    );
    stage.checks.equal("and a text", &messages[1]["content"]["type"], "text");
}

pub fn completion(stage: &Stage) {
    let mut peer = stage.connect(json!({}));
    let reference = json!({"type": "ref/prompt", "name": "test_prompt_with_arguments"});
    let params = json!({"ref": reference, "argument": {"name": "arg1", "value": "par"}});
    let result = peer.result("completion/complete", params);
    let values = result["completion"]["values"].as_array().cloned();
    let texts = |values: &Vec<Value>| values.len() <= 100 && values.iter().all(Value::is_string);
    stage.checks.that("at most a hundred texts", values.as_ref().is_some_and(texts), &result);
    let fitting =
        |values: &Vec<Value>| values.iter().all(|one| one.as_str().unwrap_or_default().starts_with("par"));
    stage.checks.that("that go on from what is there", values.as_ref().is_some_and(fitting), &result);
    peer.close();
}

fn get(stage: &Stage, params: Value) -> Value {
    let mut peer = stage.connect(json!({}));
    let result = peer.result("prompts/get", params);
    let known = |one: &Value| {
        matches!(one["role"].as_str(), Some("user" | "assistant")) && one["content"].is_object()
    };
    let messages = result["messages"].as_array();
    stage.checks.that(
        "messages with roles",
        messages.is_some_and(|all| !all.is_empty() && all.iter().all(known)),
        &result,
    );
    peer.close();
    result["messages"].clone()
}
