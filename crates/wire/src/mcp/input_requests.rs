//! Questions to the client: separate requests in handshake revisions, input requests in stateless ones.

use super::Revision;
use super::meta::ClientCapabilities;
use super::result::typed;
use crate::jsonrpc::{self, RequestId};
use bytes::Bytes;
use toolyard_formats::json::{self, Object};
use toolyard_protocol::{InputRequest, InputRequestBody, Payload};

/// Whether the client declared the capability that the question needs.
pub fn is_supported(body: &InputRequestBody, client: ClientCapabilities) -> bool {
    match body {
        InputRequestBody::Elicit(_) => client.form,
        InputRequestBody::ElicitUrl(_) => client.url,
        InputRequestBody::Sample(_) => client.sampling,
        InputRequestBody::Roots => client.roots,
    }
}

/// The capability that a question needs, as a raw `ClientCapabilities` object.
pub fn required_capability(body: &InputRequestBody) -> &'static str {
    match body {
        InputRequestBody::Elicit(_) => r#"{"elicitation":{}}"#,
        InputRequestBody::ElicitUrl(_) => r#"{"elicitation":{"url":{}}}"#,
        InputRequestBody::Sample(_) => r#"{"sampling":{}}"#,
        InputRequestBody::Roots => r#"{"roots":{}}"#,
    }
}

/// The question as a request, for handshake revisions.
pub fn write_request(id: &RequestId, question: &InputRequest, revision: Revision) -> Vec<u8> {
    jsonrpc::request(id, method(&question.body), &params(question, revision))
}

/// `input_required`: every open question, and the state that the client must return.
pub fn write_input_required(
    id: &RequestId,
    revision: Revision,
    questions: &[InputRequest],
    state: &str,
) -> Vec<u8> {
    jsonrpc::result(id, 400 + state.len(), |out| {
        let mut object = typed(out, revision, "input_required");
        push_requests(object.member("inputRequests"), questions, revision);
        object.text("requestState", state);
        object.end();
    })
}

/// `{key: {method, params}}`.
pub fn push_requests(out: &mut Vec<u8>, questions: &[InputRequest], revision: Revision) {
    let mut object = Object::new(out);
    for question in questions {
        let mut request = Object::new(object.member(&question.key));
        request.text("method", method(&question.body)).raw("params", &params(question, revision));
        request.end();
    }
    object.end();
}

/// The responses in `inputResponses` by key; values that are not objects are ignored.
pub fn read_responses(raw: &Bytes) -> Vec<(String, Payload)> {
    let members = json::members(raw).ok().flatten().unwrap_or_default();
    let responses = members.into_iter().map(|(key, range)| (key.into_owned(), raw.slice(range)));
    responses
        .filter(|(_, raw)| raw.first() == Some(&b'{'))
        .map(|(key, raw)| (key, Payload::json(raw)))
        .collect()
}

/// Writes `inputResponses`.
pub fn write_responses<'a>(responses: impl IntoIterator<Item = (&'a str, &'a Payload)>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    for (key, response) in responses {
        object.raw(key, response.bytes());
    }
    object.end();
    out
}

/// Whether a response has the shape that the question requires; a tool must not receive anything else.
pub fn is_valid_response(body: &InputRequestBody, response: &Payload) -> bool {
    let raw = response.bytes();
    let members = json::members(raw).ok().flatten().unwrap_or_default();
    let member =
        |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, range)| &raw[range.clone()]);
    match body {
        InputRequestBody::Elicit(_) | InputRequestBody::ElicitUrl(_) => {
            let action = member("action").and_then(jsonrpc::text);
            let content = member("content").is_none_or(|raw| raw.starts_with(b"{"));
            matches!(action.as_deref(), Some("accept" | "decline" | "cancel")) && content
        }
        InputRequestBody::Sample(_) => member("content").is_some() && member("role").is_some(),
        InputRequestBody::Roots => member("roots").is_some_and(|raw| raw.starts_with(b"[")),
    }
}

fn method(body: &InputRequestBody) -> &'static str {
    match body {
        InputRequestBody::Elicit(_) | InputRequestBody::ElicitUrl(_) => "elicitation/create",
        InputRequestBody::Sample(_) => "sampling/createMessage",
        InputRequestBody::Roots => "roots/list",
    }
}

fn params(question: &InputRequest, revision: Revision) -> Vec<u8> {
    match &question.body {
        InputRequestBody::Roots => b"{}".to_vec(),
        InputRequestBody::Sample(payload) => payload.bytes().to_vec(),
        InputRequestBody::Elicit(payload) if revision.has_icons() => with(payload, &[("mode", "form")]),
        InputRequestBody::Elicit(payload) => payload.bytes().to_vec(),
        InputRequestBody::ElicitUrl(payload) if revision.is_stateless() => with(payload, &[("mode", "url")]),
        // The handshake revision also requires an id of the question.
        InputRequestBody::ElicitUrl(payload) => {
            with(payload, &[("mode", "url"), ("elicitationId", &question.key)])
        }
    }
}

/// The object with these members set.
fn with(payload: &Payload, extra: &[(&str, &str)]) -> Vec<u8> {
    let raw = payload.bytes();
    let mut out = Vec::with_capacity(raw.len() + 64);
    let mut object = Object::new(&mut out);
    for (name, value) in extra {
        object.text(name, value);
    }
    for (name, range) in json::members(raw).ok().flatten().unwrap_or_default() {
        if !extra.iter().any(|(known, _)| *known == name) {
            object.raw(&name, &raw[range]);
        }
    }
    object.end();
    out
}
