//! Documents of the framed dialect: result envelope, discovery document and prompt source. HTTP sends them
//! as they are, framed stdio inside JSON-RPC.

use crate::envelope::push_details;
use crate::jsonrpc::{self, RequestId};
use toolyard_formats::json::{Object, array};
use toolyard_protocol::{Error, Outcome, Payload, PromptPack, PromptSource, RpcError, ToolSpec};

/// `{meta: {traceId, durationMs}, body, error, warnings}`.
pub fn write_envelope(outcome: &Outcome) -> Vec<u8> {
    let mut out = Vec::with_capacity(outcome.data().map_or(0, |data| data.len()) + 160);
    let mut envelope = Object::new(&mut out);
    let mut meta = Object::new(envelope.member("meta"));
    match outcome.meta.call_id {
        Some(id) => meta.text("traceId", id.text().as_str()),
        None => meta.raw("traceId", b"null"),
    };
    meta.number("durationMs", outcome.meta.duration.as_millis() as u64);
    meta.bool("cached", outcome.meta.cached).number("attempts", outcome.meta.attempts.into());
    if let Some(sandbox) = outcome.meta.sandbox {
        meta.text("sandbox", sandbox.as_str());
    }
    meta.end();
    match (outcome.data(), outcome.content()) {
        (Some(data), _) => envelope.raw("body", data.bytes()),
        (None, Some(content)) => {
            let mut body = Object::new(envelope.member("body"));
            body.raw("content", content.bytes());
            body.end();
            &mut envelope
        }
        (None, None) => envelope.raw("body", b"null"),
    };
    match outcome.error() {
        Some(error) => push_error(envelope.member("error"), error),
        None => envelope.member("error").extend_from_slice(b"null"),
    }
    envelope.texts("warnings", outcome.meta.warnings.iter().map(String::as_str));
    envelope.end();
    out
}

/// The envelope as a JSON-RPC response. A failure carries its envelope in `data`, because the codes of the
/// toolpack format are not JSON-RPC codes.
pub fn write_response(id: &RequestId, outcome: &Outcome) -> Vec<u8> {
    let envelope = write_envelope(outcome);
    let Some(error) = outcome.error().filter(|_| outcome.data().is_none()) else {
        return jsonrpc::result(id, envelope.len(), |out| out.extend_from_slice(&envelope));
    };
    let failure = RpcError::new(jsonrpc::code_of(error.kind), &error.message);
    jsonrpc::error(Some(id), &RpcError { data: Some(Payload::json(envelope)), ..failure })
}

/// `{body, spec}`.
pub fn write_prompt(prompt: &PromptSource) -> Vec<u8> {
    let mut out = Vec::with_capacity(prompt.body.as_ref().map_or(0, String::len) + 256);
    let mut object = Object::new(&mut out);
    object.text_or_null("body", prompt.body.as_deref());
    let mut spec = Object::new(object.member("spec"));
    for (name, text) in [("title", &prompt.title), ("description", &prompt.description)] {
        if let Some(text) = text {
            spec.text(name, text);
        }
    }
    for (name, payload) in [("inputs", &prompt.inputs), ("constraints", &prompt.constraints)] {
        if let Some(payload) = payload {
            spec.raw(name, payload.bytes());
        }
    }
    spec.end();
    object.end();
    out
}

fn push_error(out: &mut Vec<u8>, error: &Error) {
    let mut object = Object::new(out);
    object.text("code", error.code()).text("message", &error.message);
    push_details(object.member("details"), error);
    object.end();
}

/// The content of `GET /mcp/discover`.
pub struct Discovery<'a> {
    pub server_version: &'a str,
    pub uptime_seconds: u64,
    pub tools: &'a mut dyn Iterator<Item = &'a ToolSpec>,
    pub prompts: &'a [PromptPack],
}

pub fn write_discovery(discovery: Discovery<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    let mut document = Object::new(&mut out);
    let mut server = Object::new(document.member("server"));
    server.text("name", "toolyard").text("version", discovery.server_version);
    server.end();
    array(document.member("tools"), discovery.tools, push_tool);
    array(document.member("prompts"), discovery.prompts, push_pack);
    let mut health = Object::new(document.member("health"));
    health.text("status", "ok").number("uptimeSec", discovery.uptime_seconds);
    health.end();
    document.end();
    out
}

fn push_pack(out: &mut Vec<u8>, pack: &PromptPack) {
    let mut object = Object::new(out);
    let id = format!("{}/{}", pack.domain, pack.name);
    object.text("id", &id);
    object.objects("versions", &pack.versions, |version, (major, description)| {
        version.number("major", u64::from(*major)).text_or_null("description", description.as_deref());
        // The URL of the spec, whichever of the prompt's files contains it.
        version.text("specRef", &format!("/mcp/prompt/{id}/{major}#/spec"));
    });
    object.end();
}

fn push_tool(out: &mut Vec<u8>, spec: &ToolSpec) {
    let mut tool = Object::new(out);
    tool.text("name", spec.exposed.as_str()).text("canonicalName", spec.name.as_str());
    let version = spec.about.version.as_ref().map(ToString::to_string);
    tool.text("version", version.as_deref().unwrap_or("0.0.0"));
    tool.text_or_null("title", spec.about.title.as_deref())
        .text_or_null("description", spec.about.description.as_deref());
    for (name, schema) in [("inputSchema", &spec.input_schema), ("outputSchema", &spec.output_schema)] {
        tool.raw(name, schema.as_ref().map_or(b"null", |schema| schema.bytes()));
    }
    let mut caps = Object::new(tool.member("caps"));
    caps.number("timeoutMs", spec.limits.timeout.as_millis() as u64);
    caps.number("maxInputBytes", spec.limits.input as u64)
        .number("maxOutputBytes", spec.limits.output as u64);
    caps.end();
    tool.end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use toolyard_protocol::{ErrorKind, Id};

    #[test]
    fn envelopes_are_written_in_the_golden_form() {
        let mut outcome = Outcome::success(Some(Payload::json("{\"n\":1}")));
        outcome.meta.call_id = Some(Id::from_parts(0, [0; 10]));
        outcome.meta.duration = Duration::from_millis(12);
        outcome.meta.warnings = vec!["w".to_owned()];
        assert_eq!(
            String::from_utf8(write_envelope(&outcome)).unwrap(),
            concat!(
                r#"{"meta":{"traceId":"00000000-0000-7000-8000-000000000000","durationMs":12,"cached":false,"attempts":0},"#,
                r#""body":{"n":1},"error":null,"warnings":["w"]}"#
            )
        );
        let failed = Outcome::failure(Error::new(ErrorKind::Timeout, "too slow"));
        assert_eq!(
            String::from_utf8(write_envelope(&failed)).unwrap(),
            concat!(
                r#"{"meta":{"traceId":null,"durationMs":0,"cached":false,"attempts":0},"body":null,"error":{"code":"ETIMEOUT","message":"too slow","#,
                r#""details":{"kind":"timeout","code":"ETIMEOUT","category":"timeout","retryable":true}},"warnings":[]}"#
            )
        );
    }
}
