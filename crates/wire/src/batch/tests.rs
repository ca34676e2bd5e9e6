//! Tests of valid and invalid batches, and of references to results.

use super::*;
use toolyard_protocol::Payload;

fn parse(text: &str) -> Result<Request, Error> {
    read(Bytes::from(text.to_owned()))
}

fn done(json: &str) -> Option<Outcome> {
    Some(Outcome::success(Some(Payload::json(json.to_owned()))))
}

#[test]
fn results_replace_references_byte_for_byte() {
    let text = r#"{"calls":[
        {"id":"b","tool":"y","arguments":{"n":{"$from":"a","pointer":"/big"},"all":[{"$from":"a"}],"keep":1e2}},
        {"id":"a","tool":"x"}]}"#;
    let batch = parse(text).unwrap().batch;
    assert_eq!((&batch.steps[0].needs[..], &batch.steps[1].needs[..]), (&[1][..], &[][..]));
    let outcomes = [None, done(r#"{"big": 123456789012345678901234567890, "s": "é"}"#)];
    let filled = batch.steps[0].arguments.resolve(&outcomes).unwrap();
    let expected = r#"{"n":123456789012345678901234567890,"all":[{"big": 123456789012345678901234567890, "s": "é"}],"keep":1e2}"#;
    assert_eq!(std::str::from_utf8(filled.bytes()).unwrap(), expected);
}

#[test]
fn a_pointer_without_a_value_fails_its_call() {
    let batch = parse(
        r#"{"calls":[{"id":"a","tool":"x"},{"id":"b","tool":"y","arguments":{"v":{"$from":"a","pointer":"/no"}}}]}"#,
    );
    let error = batch.unwrap().batch.steps[1].arguments.resolve(&[done("{}"), None]).unwrap_err();
    assert_eq!(error.message, "the result of 'a' has no value at '/no'");
}

#[test]
fn invalid_batches_are_rejected_with_the_reason() {
    let call = |id: &str, arguments: &str| format!(r#"{{"id":"{id}","tool":"x","arguments":{arguments}}}"#);
    let calls = |list: &[String]| format!(r#"{{"calls":[{}]}}"#, list.join(","));
    let many: Vec<String> = (0..257).map(|i| call(&i.to_string(), "{}")).collect();
    for (text, what) in [
        ("[]".to_owned(), "must be an object"),
        ("{}".to_owned(), "'calls' is missing"),
        (r#"{"calls":[]}"#.to_owned(), "no calls"),
        (r#"{"calls":[],"x":1}"#.to_owned(), "unknown member 'x'"),
        (r#"{"calls":[{"id":"a"}]}"#.to_owned(), "call 1: not a batch: missing field `tool`"),
        (calls(&[call("a", "{}"), call("a", "{}")]), "two calls have the id 'a'"),
        (calls(&[call("a", r#"{"v":{"$from":"b"}}"#)]), "depends on the unknown call 'b'"),
        (calls(&[call("a", r#"{"v":{"$from":"a"}}"#)]), "cycle: a → a"),
        (
            calls(&[
                call("a", r#"{"v":{"$from":"b"}}"#),
                call("b", r#"{"v":{"$from":"c"}}"#),
                call("c", r#"{"v":{"$from":"a"}}"#),
                call("d", r#"{"v":{"$from":"a"}}"#),
            ]),
            "cycle: a → b → c → a",
        ),
        (calls(&[call("a", r#"{"v":{"$from":"b","pointer":"x"}}"#)]), "not a JSON pointer"),
        (calls(&[call("a", r#"{"v":{"$from":"b","other":1}}"#)]), "unknown field `other`"),
        (calls(&[call("a", r#"{"v":{"$from":7}}"#)]), "invalid type"),
        (calls(&[call("a", "[]")]), "must be a JSON object"),
        (calls(&many), "257 calls"),
    ] {
        let error = parse(&text).err().unwrap_or_else(|| panic!("{text} was accepted"));
        assert!(error.message.contains(what), "{text}: {}", error.message);
    }
}

#[test]
fn conversation_requests_become_a_message_history() {
    let text = r#"{"messages":[{"role":"system","content":"compiled context document"}],
      "tool_calls":[
        {"resource_call":{"jsonrpc":"2.0","method":"resources/read","params":{"uri":"file:///path/to/resource","name":"resource_name"},"id":"ResourceCallID"}},
        {"tool_call":{"jsonrpc":"2.0","method":"tools/call","params":{"tool_name":"text_summarizer","arguments":{"depends":"ResourceCallID","text":"<ResourceCallID response>"}},"id":"ToolCallID"}}]}"#;
    let Request { batch, conversation } = parse(text).unwrap();
    assert_eq!(batch.steps[0].action, Action::Read { uri: "file:///path/to/resource".into() });
    assert_eq!(batch.steps[1].action, Action::Call { tool: "text_summarizer".into() });
    assert_eq!(batch.steps[1].needs, [0]);
    let outcomes = [done(r#""a \"long\" text""#), None];
    let filled = batch.steps[1].arguments.resolve(&outcomes).unwrap();
    assert_eq!(std::str::from_utf8(filled.bytes()).unwrap(), r#"{"text":"a \"long\" text"}"#);
    let outcomes = [outcomes[0].clone().unwrap(), done(r#"{"summary":"short"}"#).unwrap()];
    let history = conversation.unwrap().write(&outcomes);
    let history: serde_json::Value = serde_json::from_slice(&history).unwrap();
    let roles: Vec<&str> =
        history["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "assistant", "system", "assistant", "tool"]);
    assert_eq!(history["messages"][0]["content"], "compiled context document");
    assert_eq!(history["messages"][2]["content"], "a \"long\" text");
    assert_eq!(history["messages"][4]["content"], r#"{"summary":"short"}"#);
}
