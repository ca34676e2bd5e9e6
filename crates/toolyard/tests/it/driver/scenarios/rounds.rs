//! Questions without a session: a result that asks, and the same request again with the answers.

use crate::driver::peer::Peer;
use crate::driver::stage::Stage;
use serde_json::{Value, json};

const ELICITATION: &str = "test_input_required_result_elicitation";

pub fn basic_elicitation(stage: &Stage) {
    let mut peer = willing(stage);
    let first = asks(stage, &mut peer, ELICITATION);
    let question = &first["inputRequests"]["user_name"];
    stage.checks.equal("a person is asked", &question["method"], "elicitation/create");
    stage.checks.equal("the message", &question["params"]["message"], "What is your name?");
    stage.checks.equal("the form", &question["params"]["requestedSchema"]["required"], json!(["name"]));
    let done = again(&mut peer, ELICITATION, &first, json!({"user_name": accept(json!({"name": "Alice"}))}));
    completes(stage, &done, "Hello, Alice!");
    peer.close();
}

pub fn basic_sampling(stage: &Stage) {
    let tool = "test_input_required_result_sampling";
    let mut peer = willing(stage);
    let first = asks(stage, &mut peer, tool);
    let question = &first["inputRequests"]["capital_question"];
    stage.checks.equal("the model is asked", &question["method"], "sampling/createMessage");
    let said = &question["params"]["messages"][0]["content"]["text"];
    stage.checks.equal("the prompt", said, "What is the capital of France?");
    stage.checks.equal("the limit", &question["params"]["maxTokens"], 100);
    let answers = json!({"capital_question": model("The capital of France is Paris.")});
    let done = again(&mut peer, tool, &first, answers);
    completes(stage, &done, "The capital of France is Paris.");
    peer.close();
}

pub fn basic_roots(stage: &Stage) {
    let tool = "test_input_required_result_list_roots";
    let mut peer = willing(stage);
    let first = asks(stage, &mut peer, tool);
    stage.checks.equal(
        "the folders are asked for",
        &first["inputRequests"]["client_roots"]["method"],
        "roots/list",
    );
    let done = again(&mut peer, tool, &first, json!({"client_roots": roots()}));
    completes(stage, &done, "file:///test/root");
    peer.close();
}

pub fn request_state(stage: &Stage) {
    let tool = "test_input_required_result_request_state";
    let mut peer = willing(stage);
    let first = asks(stage, &mut peer, tool);
    stage.checks.that(
        "there is a state",
        first["requestState"].as_str().is_some_and(|text| !text.is_empty()),
        &first,
    );
    let question = &first["inputRequests"]["confirm"]["params"];
    stage.checks.equal("the question", &question["message"], "Please confirm");
    let done = again(&mut peer, tool, &first, json!({"confirm": accept(json!({"ok": true}))}));
    completes(stage, &done, "state-ok");
    peer.close();
}

pub fn multiple_inputs(stage: &Stage) {
    let tool = "test_input_required_result_multiple_inputs";
    let mut peer = willing(stage);
    // Three questions that are asked at once are told together, whichever the tool came to first.
    let first = asks(stage, &mut peer, tool);
    let questions = &first["inputRequests"];
    for (key, method) in [
        ("user_name", "elicitation/create"),
        ("greeting", "sampling/createMessage"),
        ("client_roots", "roots/list"),
    ] {
        stage.checks.equal(key, &questions[key]["method"], method);
    }
    stage.checks.that("there is a state", first["requestState"].is_string(), &first);
    let answers = json!({"user_name": accept(json!({"name": "Alice"})), "greeting": model("Hello there!"), "client_roots": roots()});
    let done = again(&mut peer, tool, &first, answers);
    for part in ["Alice", "Hello there!", "file:///test/root"] {
        completes(stage, &done, part);
    }
    peer.close();
}

pub fn multi_round(stage: &Stage) {
    let tool = "test_input_required_result_multi_round";
    let mut peer = willing(stage);
    let first = asks(stage, &mut peer, tool);
    stage.checks.equal(
        "the first question",
        &first["inputRequests"]["step1"]["params"]["message"],
        "Step 1: What is your name?",
    );
    let second = again(&mut peer, tool, &first, json!({"step1": accept(json!({"name": "Alice"}))}));
    let second = &second["result"];
    stage.checks.equal("it asks again", &second["resultType"], "input_required");
    stage.checks.that("with another question", second["inputRequests"]["step2"].is_object(), second);
    stage.checks.lacks("and not with the first", &second["inputRequests"], &["step1"]);
    let another = second["requestState"].is_string() && second["requestState"] != first["requestState"];
    stage.checks.that("and another state", another, second);
    let done = again(&mut peer, tool, second, json!({"step2": accept(json!({"color": "blue"}))}));
    for part in ["Alice", "blue"] {
        completes(stage, &done, part);
    }
    peer.close();
}

pub fn missing_response(stage: &Stage) {
    let mut peer = willing(stage);
    let params = json!({"name": ELICITATION, "arguments": {}, "inputResponses": {"wrong_key": accept(json!({"data": "wrong"}))}});
    let result = peer.result("tools/call", params);
    stage.checks.equal("what is missing is asked for", &result["resultType"], "input_required");
    stage.checks.that("again", result["inputRequests"]["user_name"].is_object(), &result);
    let first = asks(stage, &mut peer, ELICITATION);
    let second = again(&mut peer, ELICITATION, &first, json!({"wrong_key": accept(json!({}))}));
    stage.checks.that(
        "with a state too",
        second["result"]["inputRequests"]["user_name"].is_object(),
        &second,
    );
    let done = again(
        &mut peer,
        ELICITATION,
        &second["result"],
        json!({"user_name": accept(json!({"name": "Bob"}))}),
    );
    completes(stage, &done, "Hello, Bob!");
    peer.close();
}

pub fn of_a_prompt(stage: &Stage) {
    let mut peer = willing(stage);
    let first = peer.result("prompts/get", json!({"name": "test_input_required_result_prompt"}));
    stage.checks.equal("a prompt can ask", &first["resultType"], "input_required");
    let question = &first["inputRequests"]["user_context"];
    stage.checks.equal("its question", &question["params"]["message"], "What context should the prompt use?");
    let mut params = json!({"name": "test_input_required_result_prompt",
                            "inputResponses": {"user_context": accept(json!({"context": "test context"}))}});
    if first["requestState"].is_string() {
        params["requestState"] = first["requestState"].clone();
    }
    let result = peer.result("prompts/get", params);
    stage.checks.equal("and go on", &result["resultType"], "complete");
    stage.checks.that("with the answer", result["messages"].to_string().contains("test context"), &result);
    peer.close();
}

pub fn result_type(stage: &Stage) {
    let mut peer = willing(stage);
    asks(stage, &mut peer, ELICITATION);
    let greeting = peer.call("greet", json!({"name": "x"}));
    stage.checks.equal("what is complete says so", &greeting["resultType"], "complete");
    peer.close();
}

pub fn unsupported_methods(stage: &Stage) {
    let mut peer = willing(stage);
    for method in
        ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"]
    {
        let answer = peer.request(method, json!({}));
        let kind = &answer["result"]["resultType"];
        stage.checks.that("lists never ask", *kind == "complete" || answer["error"].is_object(), &answer);
    }
    peer.close();
}

pub fn tampered_state(stage: &Stage) {
    let tool = "test_input_required_result_tampered_state";
    let mut peer = willing(stage);
    let first = asks(stage, &mut peer, tool);
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
        let answer = peer.request("tools/call", params);
        stage.checks.refused("a state that is not ours", &answer, -32602);
    }
    let params =
        json!({"name": ELICITATION, "arguments": {}, "inputResponses": answers, "requestState": state});
    let answer = peer.request("tools/call", params);
    stage.checks.refused("a state of another call", &answer, -32602);
    let params =
        json!({"name": tool, "arguments": {"more": 1}, "inputResponses": answers, "requestState": state});
    let answer = peer.request("tools/call", params);
    stage.checks.refused("a state of other arguments", &answer, -32602);
    let done = again(&mut peer, tool, &first, answers);
    completes(stage, &done, "Hello, Mallory!");
    peer.close();
}

pub fn capability_check(stage: &Stage) {
    let tool = "test_input_required_result_capabilities";
    for (declared, method) in [("sampling", "sampling/createMessage"), ("elicitation", "elicitation/create")]
    {
        let mut peer = stage.connect(json!({declared: {}}));
        let result = peer.call(tool, json!({}));
        stage.checks.equal("it asks", &result["resultType"], "input_required");
        let questions = result["inputRequests"].as_object().cloned().unwrap_or_default();
        let allowed = questions.values().all(|question| question["method"] == method);
        stage.checks.that("for what is declared only", !questions.is_empty() && allowed, &result);
        peer.close();
    }
}

pub fn extra_responses(stage: &Stage) {
    let mut peer = willing(stage);
    let answers = json!({"user_name": accept(json!({"name": "Alice"})),
                         "unknown_extra_key": accept(json!({"foo": "bar"})), "another_unexpected": accept(json!({"baz": 123}))});
    let params = json!({"name": ELICITATION, "arguments": {}, "inputResponses": answers});
    let answer = peer.request("tools/call", params);
    completes(stage, &answer, "Hello, Alice!");
    peer.close();
}

pub fn invalid_responses(stage: &Stage) {
    let mut peer = willing(stage);
    let accepted = |answer: &Value| answer["result"]["resultType"] == "complete";
    for wrong in [json!({"user_name": 12345}), json!({"user_name": "Alice"}), Value::Null, json!([1])] {
        let params = json!({"name": ELICITATION, "arguments": {}, "inputResponses": wrong});
        let answer = peer.request("tools/call", params);
        stage.checks.that("answers of no known form do not count", !accepted(&answer), &answer);
        if !wrong.is_object() {
            stage.checks.refused("what is not a map is refused", &answer, -32602);
        }
    }
    peer.close();
}

/// A client that can answer everything.
fn willing<'a>(stage: &'a Stage) -> Peer<'a> {
    stage.connect(json!({"elicitation": {}, "sampling": {}, "roots": {}}))
}

/// Calls the tool, which must ask.
fn asks(stage: &Stage, peer: &mut Peer, tool: &str) -> Value {
    let result = peer.call(tool, json!({}));
    stage.checks.equal("it asks", &result["resultType"], "input_required");
    stage.checks.that(
        "something",
        result["inputRequests"].as_object().is_some_and(|all| !all.is_empty()),
        &result,
    );
    stage.checks.lacks("and gives no content yet", &result, &["content", "structuredContent"]);
    result
}

/// The same call with answers, and the state if there was one.
fn again(peer: &mut Peer, tool: &str, asked: &Value, answers: Value) -> Value {
    let mut params = json!({"name": tool, "arguments": {}, "inputResponses": answers});
    if asked["requestState"].is_string() {
        params["requestState"] = asked["requestState"].clone();
    }
    peer.request("tools/call", params)
}

fn completes(stage: &Stage, answer: &Value, part: &str) {
    stage.checks.equal("the call is complete", &answer["result"]["resultType"], "complete");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    stage.checks.that(&format!("with {part:?} in it"), text.contains(part), answer);
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
