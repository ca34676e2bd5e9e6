//! Prompts and the completion of their arguments.

use crate::driver::context::ScenarioContext;
use serde_json::{Value, json};

pub fn list(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let listed = client.result("prompts/list", json!({}));
    let prompts = listed["prompts"].as_array().cloned().unwrap_or_default();
    let of = |name: &str| prompts.iter().find(|one| one["name"] == name).cloned().unwrap_or_default();
    for name in [
        "test_simple_prompt",
        "test_prompt_with_arguments",
        "test_prompt_with_embedded_resource",
        "test_prompt_with_image",
    ] {
        context.checks.equal("a prompt is listed", &of(name)["name"], name);
    }
    for one in &prompts {
        context.checks.that(
            "a prompt is described",
            one["description"].as_str().is_some_and(|text| !text.is_empty()),
            one,
        );
    }
    let arguments = of("test_prompt_with_arguments")["arguments"].clone();
    for (at, name) in ["arg1", "arg2"].into_iter().enumerate() {
        context.checks.equal("an argument is listed", &arguments[at]["name"], name);
        context.checks.equal("and needed", &arguments[at]["required"], true);
    }
    client.close();
}

pub fn simple(context: &ScenarioContext) {
    let text = "This is a simple prompt for testing.";
    let messages = get(context, json!({"name": "test_simple_prompt"}));
    context.checks.equal(
        "one message",
        &messages,
        json!([{"role": "user", "content": {"type": "text", "text": text}}]),
    );
}

pub fn with_arguments(context: &ScenarioContext) {
    let arguments = json!({"arg1": "testValue1", "arg2": "test 'Value' 2"});
    let messages = get(context, json!({"name": "test_prompt_with_arguments", "arguments": arguments}));
    let text = "Prompt with arguments: arg1='testValue1', arg2='test 'Value' 2'";
    context.checks.equal("the arguments are put in", &messages[0]["content"]["text"], text);
    let mut client = context.connect(json!({}));
    let answer = client
        .request("prompts/get", json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": "a"}}));
    context.checks.refused("an argument that is needed is missing", &answer, -32602);
    let answer = client.request("prompts/get", json!({"name": "no_such_prompt"}));
    context.checks.refused("no such prompt", &answer, -32602);
    client.close();
}

pub fn embedded_resource(context: &ScenarioContext) {
    let arguments = json!({"resourceUri": "test://example-resource"});
    let messages =
        get(context, json!({"name": "test_prompt_with_embedded_resource", "arguments": arguments}));
    let content = &messages[0]["content"];
    context.checks.equal("a resource", &content["type"], "resource");
    context.checks.equal(
        "the one that was asked for",
        &content["resource"]["uri"],
        "test://example-resource",
    );
    context.checks.equal(
        "with its text",
        &content["resource"]["text"],
        "Embedded resource content for testing.",
    );
    context.checks.equal("and a text", &messages[1]["content"]["type"], "text");
}

pub fn with_image(context: &ScenarioContext) {
    let messages = get(context, json!({"name": "test_prompt_with_image"}));
    let content = &messages[0]["content"];
    context.checks.equal("an image", &content["type"], "image");
    context.checks.equal("of its type", &content["mimeType"], "image/png");
    context.checks.that(
        "with data",
        content["data"].as_str().is_some_and(|data| data.starts_with("iVBORw0KGgo")),
        content,
    );
    context.checks.equal("and a text", &messages[1]["content"]["type"], "text");
}

pub fn completion(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let reference = json!({"type": "ref/prompt", "name": "test_prompt_with_arguments"});
    let params = json!({"ref": reference, "argument": {"name": "arg1", "value": "par"}});
    let result = client.result("completion/complete", params);
    let values = result["completion"]["values"].as_array().cloned();
    let texts = |values: &Vec<Value>| values.len() <= 100 && values.iter().all(Value::is_string);
    context.checks.that("at most a hundred texts", values.as_ref().is_some_and(texts), &result);
    let fitting =
        |values: &Vec<Value>| values.iter().all(|one| one.as_str().unwrap_or_default().starts_with("par"));
    context.checks.that("that go on from what is there", values.as_ref().is_some_and(fitting), &result);
    client.close();
}

fn get(context: &ScenarioContext, params: Value) -> Value {
    let mut client = context.connect(json!({}));
    let result = client.result("prompts/get", params);
    let known = |one: &Value| {
        matches!(one["role"].as_str(), Some("user" | "assistant")) && one["content"].is_object()
    };
    let messages = result["messages"].as_array();
    context.checks.that(
        "messages with roles",
        messages.is_some_and(|all| !all.is_empty() && all.iter().all(known)),
        &result,
    );
    client.close();
    result["messages"].clone()
}
