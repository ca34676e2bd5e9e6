//! Lists of tools and results of calls.

use crate::driver::context::ScenarioContext;
use serde_json::{Value, json};

pub fn list(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let (mut tools, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let page = client.result("tools/list", params);
        tools.extend(page["tools"].as_array().cloned().unwrap_or_default());
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    context.checks.that("there are tools", tools.len() >= 10, &json!(tools.len()));
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_./-".contains(&b);
    for tool in &tools {
        let name = tool["name"].as_str().unwrap_or_default();
        context.checks.that(
            "a tool is named well",
            (1..=64).contains(&name.len()) && name.bytes().all(allowed),
            tool,
        );
        context.checks.that("a tool is described", text(&tool["description"]), tool);
        context.checks.equal("a tool takes an object", &tool["inputSchema"]["type"], "object");
    }
    let mut names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let again = client.result("tools/list", json!({}));
    let second: Vec<&str> =
        again["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    context.checks.that("the order is always the same", names.starts_with(&second), &json!([names, second]));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    context.checks.equal("tool names are unique", &json!(names.len()), count);
    client.close();
}

pub fn simple_text(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let result = client.result("tools/call", json!({"name": "test_simple_text"}));
    let text = "This is a simple text response for testing.";
    context.checks.equal("a text", &result["content"], json!([{"type": "text", "text": text}]));
    context.checks.that("not an error", result["isError"] != true, &result);
    client.close();
}

pub fn image(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let result = client.call("test_image_content", json!({}));
    is_image(context, &result["content"][0]);
    client.close();
}

pub fn audio(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let result = client.call("test_audio_content", json!({}));
    let block = &result["content"][0];
    context.checks.equal("a sound", &block["type"], "audio");
    context.checks.equal("of its type", &block["mimeType"], "audio/wav");
    context.checks.that("with data", starts_with(&block["data"], "UklGR"), block);
    client.close();
}

pub fn embedded_resource(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let result = client.call("test_embedded_resource", json!({}));
    let resource = json!({"uri": "test://embedded-resource", "mimeType": "text/plain",
                          "text": "This is an embedded resource content."});
    context.checks.equal(
        "a resource",
        &result["content"],
        json!([{"type": "resource", "resource": resource}]),
    );
    client.close();
}

pub fn mixed_content(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let result = client.call("test_multiple_content_types", json!({}));
    let content = &result["content"];
    context.checks.equal("three blocks", &json!(content.as_array().map(Vec::len)), 3);
    context.checks.equal(
        "a text first",
        &content[0],
        json!({"type": "text", "text": "Multiple content types test:"}),
    );
    is_image(context, &content[1]);
    context.checks.equal("a resource last", &content[2]["resource"]["uri"], "test://mixed-content-resource");
    context.checks.equal("of its type", &content[2]["resource"]["mimeType"], "application/json");
    let inner =
        content[2]["resource"]["text"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    context.checks.equal("with its text", &json!(inner), json!({"test": "data", "value": 123}));
    client.close();
}

pub fn error(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let result = client.call("test_error_handling", json!({}));
    context.checks.equal("an error", &result["isError"], true);
    let text = "This tool intentionally returns an error for testing";
    context.checks.equal("that says why", &result["content"], json!([{"type": "text", "text": text}]));
    client.close();
}

pub fn progress(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    for token in [json!("progress-test-1"), json!(77)] {
        client.received.clear();
        let params =
            json!({"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": token}});
        let result = client.result("tools/call", params);
        context.checks.equal("the call ends", &result["content"][0]["text"], "Tool with progress executed");
        let seen = client.notifications("notifications/progress");
        let values: Vec<Value> = seen.iter().map(|one| one["params"]["progress"].clone()).collect();
        context.checks.equal("three steps, in order, before the answer", &json!(values), json!([0, 50, 100]));
        for one in &seen {
            context.checks.equal(
                "with the token as it was given",
                &one["params"]["progressToken"],
                token.clone(),
            );
            context.checks.equal("of a hundred", &one["params"]["total"], 100);
        }
    }
    client.received.clear();
    client.call("test_tool_with_progress", json!({}));
    let seen = client.notifications("notifications/progress");
    context.checks.that("no token, no progress", seen.is_empty(), &json!(seen));
    client.close();
}

pub fn logging(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    client.result("logging/setLevel", json!({"level": "debug"}));
    client.call("test_tool_with_logging", json!({}));
    let seen = client.notifications("notifications/message");
    let said: Vec<Value> = seen.iter().map(|one| one["params"]["data"].clone()).collect();
    let expected = json!(["Tool execution started", "Tool processing data", "Tool execution completed"]);
    context.checks.equal("three lines, in order, before the answer", &json!(said), expected);
    for one in &seen {
        context.checks.equal("at their level", &one["params"]["level"], "info");
    }
    client.received.clear();
    client.result("logging/setLevel", json!({"level": "warning"}));
    client.call("test_tool_with_logging", json!({}));
    let seen = client.notifications("notifications/message");
    context.checks.that("below the level there is silence", seen.is_empty(), &json!(seen));
    client.close();
}

pub fn full_json_schema(context: &ScenarioContext) {
    let mut client = context.connect(json!({}));
    let listed = client.result("tools/list", json!({}));
    let tools = listed["tools"].as_array().unwrap();
    let tool =
        tools.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool").cloned().unwrap_or_default();
    let schema = &tool["inputSchema"];
    let checks = &context.checks;
    checks.equal("$schema stays", &schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    checks.equal("$defs stays", &schema["$defs"]["address"]["properties"]["city"], json!({"type": "string"}));
    checks.equal("$anchor stays", &schema["$defs"]["address"]["$anchor"], "addressDef");
    checks.equal("$ref stays", &schema["properties"]["address"], json!({"$ref": "#/$defs/address"}));
    checks.equal("additionalProperties stays", &schema["additionalProperties"], false);
    let any = json!([{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}]);
    checks.equal("allOf and anyOf stay", &schema["allOf"], any);
    let condition =
        json!({"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]});
    checks.equal("if stays", &schema["if"], condition);
    checks.equal("then stays", &schema["then"], json!({"required": ["phone"]}));
    checks.equal("else stays", &schema["else"], json!({"required": ["email"]}));
    let good = json!({"contactMethod": "phone", "phone": "1"});
    let result = client.call("json_schema_2020_12_tool", good.clone());
    checks.equal("what fits is let in", &result["structuredContent"], good);
    let result = client.call("json_schema_2020_12_tool", json!({"contactMethod": "phone", "email": "a@b"}));
    checks.equal("and the schema is the rule", &result["isError"], true);
    client.close();
}

fn is_image(context: &ScenarioContext, block: &Value) {
    context.checks.equal("an image", &block["type"], "image");
    context.checks.equal("of its type", &block["mimeType"], "image/png");
    context.checks.that("with data", starts_with(&block["data"], "iVBORw0KGgo"), block);
}

fn starts_with(value: &Value, start: &str) -> bool {
    value.as_str().is_some_and(|text| text.starts_with(start))
}
