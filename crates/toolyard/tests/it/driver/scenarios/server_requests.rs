//! Input requests in a session: requests that the server sends while a call runs.

use crate::driver::context::ScenarioContext;
use serde_json::{Value, json};

pub fn sampling(context: &ScenarioContext) {
    let mut client = context.connect(json!({"sampling": {}}));
    client.responder = Some(Box::new(|method, _| {
        let content = json!({"type": "text", "text": "This is a test response from the client"});
        (method == "sampling/createMessage").then(
            || json!({"role": "assistant", "content": content, "model": "test-model", "stopReason": "endTurn"}),
        )
    }));
    let result = client.call("test_sampling", json!({"prompt": "Test prompt for sampling"}));
    let checks = &context.checks;
    checks.equal("one question", &json!(client.server_requests.len()), 1);
    let asked = client.server_requests.first().cloned().unwrap_or_default();
    checks.equal("to the model", &asked["method"], "sampling/createMessage");
    let message = json!({"role": "user", "content": {"type": "text", "text": "Test prompt for sampling"}});
    checks.equal("with the prompt", &asked["params"]["messages"], json!([message]));
    checks.equal("and a limit", &asked["params"]["maxTokens"], 100);
    let text = "LLM response: This is a test response from the client";
    checks.equal("the answer is used", &result["content"][0]["text"], text);
    client.close();
    let mut client = context.connect(json!({}));
    let answer = client.request("tools/call", json!({"name": "test_sampling", "arguments": {"prompt": "x"}}));
    let failed = answer["error"].is_object() || answer["result"]["isError"] == true;
    checks.that("a client without a model gets an error", failed, &answer);
    checks.that("and not asked", client.server_requests.is_empty(), &json!(client.server_requests));
    client.close();
}

pub fn elicitation(context: &ScenarioContext) {
    let checks = &context.checks;
    for (action, content) in [
        ("accept", json!({"username": "testuser", "email": "test@example.com"})),
        ("decline", Value::Null),
        ("cancel", Value::Null),
    ] {
        let mut client = context.connect(json!({"elicitation": {}}));
        let answer = if content.is_null() {
            json!({"action": action})
        } else {
            json!({"action": action, "content": content})
        };
        client.responder = Some(Box::new(move |_, _| Some(answer.clone())));
        let result = client.call("test_elicitation", json!({"message": "Please provide your information"}));
        let asked = client.server_requests.first().cloned().unwrap_or_default();
        checks.equal("a person is asked", &asked["method"], "elicitation/create");
        checks.equal("with the message", &asked["params"]["message"], "Please provide your information");
        let schema = &asked["params"]["requestedSchema"];
        checks.equal("for two fields", &schema["required"], json!(["username", "email"]));
        checks.equal("both texts", &schema["properties"]["email"]["type"], "string");
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        checks.that("the answer reaches the tool", text.contains(action), &result);
        checks.that("with its content", content.is_null() != text.contains("test@example.com"), &result);
        client.close();
    }
}

pub fn defaults(context: &ScenarioContext) {
    let content = json!({"name": "Jane", "age": 25, "score": 88.5, "status": "inactive", "verified": false});
    let properties = form(context, "test_elicitation_sep1034_defaults", &content);
    for (field, kind, default) in [
        ("name", "string", json!("John Doe")),
        ("age", "integer", json!(30)),
        ("score", "number", json!(95.5)),
        ("status", "string", json!("active")),
        ("verified", "boolean", json!(true)),
    ] {
        context.checks.equal(&format!("the type of {field}"), &properties[field]["type"], kind);
        context.checks.equal(&format!("the default of {field}"), &properties[field]["default"], default);
    }
    context.checks.equal(
        "the choices",
        &properties["status"]["enum"],
        json!(["active", "inactive", "pending"]),
    );
}

pub fn enums(context: &ScenarioContext) {
    let content = json!({"untitledSingle": "option1", "titledSingle": "value1", "legacyEnum": "opt1",
                         "untitledMulti": ["option1", "option2"], "titledMulti": ["value1", "value2"]});
    let properties = form(context, "test_elicitation_sep1330_enums", &content);
    let checks = &context.checks;
    let options = json!(["option1", "option2", "option3"]);
    let titled = |choices: &Value| {
        let complete = |one: &Value| one["const"].is_string() && one["title"].is_string();
        choices.as_array().is_some_and(|all| all.len() == 3 && all.iter().all(complete))
    };
    let single = &properties["untitledSingle"];
    checks.equal("one of several", single, json!({"type": "string", "enum": options}));
    let single = &properties["titledSingle"];
    checks.equal("one of several with titles", &single["type"], "string");
    checks.that("by oneOf", titled(&single["oneOf"]), single);
    checks.lacks("and not by enum", single, &["enum"]);
    let legacy = &properties["legacyEnum"];
    checks.equal("the old way", &legacy["enum"], json!(["opt1", "opt2", "opt3"]));
    checks.equal(
        "has as many names",
        &legacy["enumNames"],
        json!(["Option One", "Option Two", "Option Three"]),
    );
    let multi = &properties["untitledMulti"];
    checks.equal("several of several", &multi["type"], "array");
    checks.equal("by the items' enum", &multi["items"], json!({"type": "string", "enum": options}));
    let multi = &properties["titledMulti"];
    checks.equal("several with titles", &multi["type"], "array");
    checks.that("by the items' anyOf", titled(&multi["items"]["anyOf"]), multi);
    checks.lacks("and not by enum", &multi["items"], &["enum"]);
}

/// The fields of the tool's form; `content` is sent as the response and must be returned by the tool.
fn form(context: &ScenarioContext, tool: &str, content: &Value) -> Value {
    let mut client = context.connect(json!({"elicitation": {}}));
    let answer = json!({"action": "accept", "content": content});
    client.responder = Some(Box::new(move |_, _| Some(answer.clone())));
    let result = client.call(tool, json!({}));
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let said = text.split_once("content=").and_then(|(_, rest)| serde_json::from_str::<Value>(rest).ok());
    context.checks.that("it is accepted", text.starts_with("Elicitation completed: action=accept"), &result);
    context.checks.equal("what was filled in is what the tool gets", &json!(said), content.clone());
    context.checks.equal("one question", &json!(client.server_requests.len()), 1);
    let asked = client.server_requests.first().cloned().unwrap_or_default();
    context.checks.equal("an object is asked for", &asked["params"]["requestedSchema"]["type"], "object");
    client.close();
    asked["params"]["requestedSchema"]["properties"].clone()
}
