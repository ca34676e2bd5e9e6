//! Input requests without a session: an `input_required` result, then the same request with the responses.

use crate::driver::client::McpClient;
use crate::driver::context::ScenarioContext;
use serde_json::{Value, json};

const ELICITATION: &str = "test_input_required_result_elicitation";

pub fn basic_elicitation(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let first = asks(context, &mut client, ELICITATION);
    let question = &first["inputRequests"]["user_name"];
    context.checks.equal("a person is asked", &question["method"], "elicitation/create");
    context.checks.equal("the message", &question["params"]["message"], "What is your name?");
    context.checks.equal("the form", &question["params"]["requestedSchema"]["required"], json!(["name"]));
    let done =
        again(&mut client, ELICITATION, &first, json!({"user_name": accept(json!({"name": "Alice"}))}));
    completes(context, &done, "Hello, Alice!");
    client.close();
}

pub fn basic_sampling(context: &ScenarioContext) {
    let tool = "test_input_required_result_sampling";
    let mut client = capable_client(context);
    let first = asks(context, &mut client, tool);
    let question = &first["inputRequests"]["capital_question"];
    context.checks.equal("the model is asked", &question["method"], "sampling/createMessage");
    let said = &question["params"]["messages"][0]["content"]["text"];
    context.checks.equal("the prompt", said, "What is the capital of France?");
    context.checks.equal("the limit", &question["params"]["maxTokens"], 100);
    let answers = json!({"capital_question": model("The capital of France is Paris.")});
    let done = again(&mut client, tool, &first, answers);
    completes(context, &done, "The capital of France is Paris.");
    client.close();
}

pub fn basic_roots(context: &ScenarioContext) {
    let tool = "test_input_required_result_list_roots";
    let mut client = capable_client(context);
    let first = asks(context, &mut client, tool);
    context.checks.equal(
        "the folders are asked for",
        &first["inputRequests"]["client_roots"]["method"],
        "roots/list",
    );
    let done = again(&mut client, tool, &first, json!({"client_roots": roots()}));
    completes(context, &done, "file:///test/root");
    client.close();
}

pub fn request_state(context: &ScenarioContext) {
    let tool = "test_input_required_result_request_state";
    let mut client = capable_client(context);
    let first = asks(context, &mut client, tool);
    context.checks.that(
        "there is a state",
        first["requestState"].as_str().is_some_and(|text| !text.is_empty()),
        &first,
    );
    let question = &first["inputRequests"]["confirm"]["params"];
    context.checks.equal("the question", &question["message"], "Please confirm");
    let done = again(&mut client, tool, &first, json!({"confirm": accept(json!({"ok": true}))}));
    completes(context, &done, "state-ok");
    client.close();
}

pub fn multiple_inputs(context: &ScenarioContext) {
    let tool = "test_input_required_result_multiple_inputs";
    let mut client = capable_client(context);
    // Three concurrent questions are returned together, in any order.
    let first = asks(context, &mut client, tool);
    let questions = &first["inputRequests"];
    for (key, method) in [
        ("user_name", "elicitation/create"),
        ("greeting", "sampling/createMessage"),
        ("client_roots", "roots/list"),
    ] {
        context.checks.equal(key, &questions[key]["method"], method);
    }
    context.checks.that("there is a state", first["requestState"].is_string(), &first);
    let answers = json!({"user_name": accept(json!({"name": "Alice"})), "greeting": model("Hello there!"), "client_roots": roots()});
    let done = again(&mut client, tool, &first, answers);
    for part in ["Alice", "Hello there!", "file:///test/root"] {
        completes(context, &done, part);
    }
    client.close();
}

pub fn multi_round(context: &ScenarioContext) {
    let tool = "test_input_required_result_multi_round";
    let mut client = capable_client(context);
    let first = asks(context, &mut client, tool);
    context.checks.equal(
        "the first question",
        &first["inputRequests"]["step1"]["params"]["message"],
        "Step 1: What is your name?",
    );
    let second = again(&mut client, tool, &first, json!({"step1": accept(json!({"name": "Alice"}))}));
    let second = &second["result"];
    context.checks.equal("it asks again", &second["resultType"], "input_required");
    context.checks.that("with another question", second["inputRequests"]["step2"].is_object(), second);
    context.checks.lacks("and not with the first", &second["inputRequests"], &["step1"]);
    let another = second["requestState"].is_string() && second["requestState"] != first["requestState"];
    context.checks.that("and another state", another, second);
    let done = again(&mut client, tool, second, json!({"step2": accept(json!({"color": "blue"}))}));
    for part in ["Alice", "blue"] {
        completes(context, &done, part);
    }
    client.close();
}

pub fn missing_response(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let params = json!({"name": ELICITATION, "arguments": {}, "inputResponses": {"wrong_key": accept(json!({"data": "wrong"}))}});
    let result = client.result("tools/call", params);
    context.checks.equal("what is missing is asked for", &result["resultType"], "input_required");
    context.checks.that("again", result["inputRequests"]["user_name"].is_object(), &result);
    let first = asks(context, &mut client, ELICITATION);
    let second = again(&mut client, ELICITATION, &first, json!({"wrong_key": accept(json!({}))}));
    context.checks.that(
        "with a state too",
        second["result"]["inputRequests"]["user_name"].is_object(),
        &second,
    );
    let done = again(
        &mut client,
        ELICITATION,
        &second["result"],
        json!({"user_name": accept(json!({"name": "Bob"}))}),
    );
    completes(context, &done, "Hello, Bob!");
    client.close();
}

pub fn of_a_prompt(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let first = client.result("prompts/get", json!({"name": "test_input_required_result_prompt"}));
    context.checks.equal("a prompt can ask", &first["resultType"], "input_required");
    let question = &first["inputRequests"]["user_context"];
    context.checks.equal(
        "its question",
        &question["params"]["message"],
        "What context should the prompt use?",
    );
    let mut params = json!({"name": "test_input_required_result_prompt",
                            "inputResponses": {"user_context": accept(json!({"context": "test context"}))}});
    if first["requestState"].is_string() {
        params["requestState"] = first["requestState"].clone();
    }
    let result = client.result("prompts/get", params);
    context.checks.equal("and go on", &result["resultType"], "complete");
    context.checks.that("with the answer", result["messages"].to_string().contains("test context"), &result);
    client.close();
}

pub fn result_type(context: &ScenarioContext) {
    let mut client = capable_client(context);
    asks(context, &mut client, ELICITATION);
    let greeting = client.call("greet", json!({"name": "x"}));
    context.checks.equal("a complete result has the type complete", &greeting["resultType"], "complete");
    client.close();
}

pub fn unsupported_methods(context: &ScenarioContext) {
    let mut client = capable_client(context);
    for method in
        ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"]
    {
        let answer = client.request(method, json!({}));
        let kind = &answer["result"]["resultType"];
        context.checks.that("lists never ask", *kind == "complete" || answer["error"].is_object(), &answer);
    }
    client.close();
}

pub fn tampered_state(context: &ScenarioContext) {
    let tool = "test_input_required_result_tampered_state";
    let mut client = capable_client(context);
    let first = asks(context, &mut client, tool);
    let state = first["requestState"].as_str().unwrap_or_default().to_owned();
    let answers = json!({"user_name": accept(json!({"name": "Mallory"}))});
    let mut turned = state.clone().into_bytes();
    let middle = turned.len() / 2;
    if let Some(byte) = turned.get_mut(middle) {
        *byte = if *byte == b'A' { b'B' } else { b'A' };
    }
    let cut = &state[..state.len().saturating_sub(4)];
    for forged in
        [format!("{state}-TAMPERED"), String::from_utf8(turned).unwrap(), cut.to_owned(), String::new()]
    {
        let params =
            json!({"name": tool, "arguments": {}, "inputResponses": answers, "requestState": forged});
        let answer = client.request("tools/call", params);
        context.checks.refused("a state that is not ours", &answer, -32602);
    }
    let params =
        json!({"name": ELICITATION, "arguments": {}, "inputResponses": answers, "requestState": state});
    let answer = client.request("tools/call", params);
    context.checks.refused("a state of another call", &answer, -32602);
    let params =
        json!({"name": tool, "arguments": {"more": 1}, "inputResponses": answers, "requestState": state});
    let answer = client.request("tools/call", params);
    context.checks.refused("a state of other arguments", &answer, -32602);
    let done = again(&mut client, tool, &first, answers);
    completes(context, &done, "Hello, Mallory!");
    client.close();
}

pub fn capability_check(context: &ScenarioContext) {
    let tool = "test_input_required_result_capabilities";
    for (declared, method) in [("sampling", "sampling/createMessage"), ("elicitation", "elicitation/create")]
    {
        let mut client = context.connect(json!({declared: {}}));
        let result = client.call(tool, json!({}));
        context.checks.equal("it asks", &result["resultType"], "input_required");
        let questions = result["inputRequests"].as_object().cloned().unwrap_or_default();
        let allowed = questions.values().all(|question| question["method"] == method);
        context.checks.that("for what is declared only", !questions.is_empty() && allowed, &result);
        client.close();
    }
}

pub fn extra_responses(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let answers = json!({"user_name": accept(json!({"name": "Alice"})),
                         "unknown_extra_key": accept(json!({"foo": "bar"})), "another_unexpected": accept(json!({"baz": 123}))});
    let params = json!({"name": ELICITATION, "arguments": {}, "inputResponses": answers});
    let answer = client.request("tools/call", params);
    completes(context, &answer, "Hello, Alice!");
    client.close();
}

pub fn invalid_responses(context: &ScenarioContext) {
    let mut client = capable_client(context);
    let accepted = |answer: &Value| answer["result"]["resultType"] == "complete";
    for wrong in [json!({"user_name": 12345}), json!({"user_name": "Alice"}), Value::Null, json!([1])] {
        let params = json!({"name": ELICITATION, "arguments": {}, "inputResponses": wrong});
        let answer = client.request("tools/call", params);
        context.checks.that("answers of no known form do not count", !accepted(&answer), &answer);
        if !wrong.is_object() {
            context.checks.refused("what is not a map is refused", &answer, -32602);
        }
    }
    client.close();
}

/// A client that can answer everything.
fn capable_client<'a>(context: &'a ScenarioContext) -> McpClient<'a> {
    context.connect(json!({"elicitation": {}, "sampling": {}, "roots": {}}))
}

/// Calls the tool, which must request input.
fn asks(context: &ScenarioContext, client: &mut McpClient, tool: &str) -> Value {
    let result = client.call(tool, json!({}));
    context.checks.equal("it asks", &result["resultType"], "input_required");
    context.checks.that(
        "something",
        result["inputRequests"].as_object().is_some_and(|all| !all.is_empty()),
        &result,
    );
    context.checks.lacks("and gives no content yet", &result, &["content", "structuredContent"]);
    result
}

/// The same call with responses, and the state if there was one.
fn again(client: &mut McpClient, tool: &str, asked: &Value, answers: Value) -> Value {
    let mut params = json!({"name": tool, "arguments": {}, "inputResponses": answers});
    if asked["requestState"].is_string() {
        params["requestState"] = asked["requestState"].clone();
    }
    client.request("tools/call", params)
}

fn completes(context: &ScenarioContext, answer: &Value, part: &str) {
    context.checks.equal("the call is complete", &answer["result"]["resultType"], "complete");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    context.checks.that(&format!("with {part:?} in it"), text.contains(part), answer);
}

pub fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

fn model(text: &str) -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": "test-model", "stopReason": "endTurn"})
}

fn roots() -> Value {
    json!({"roots": [{"uri": "file:///test/root", "name": "Test Root"}]})
}
