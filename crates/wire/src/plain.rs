//! Seed 002's plain HTTP forms: the envelope around a result, and the discovery document.

use crate::envelope::push_details;
use crate::json::Object;
use toolyard_protocol::{Error, Outcome, ToolSpec};

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

fn push_error(out: &mut Vec<u8>, error: &Error) {
    let mut object = Object::new(out);
    object.text("code", error.code()).text("message", &error.message);
    push_details(object.member("details"), error);
    object.end();
}

/// What `GET /mcp/discover` tells about the server.
pub struct Discovery<'a> {
    pub server_version: &'a str,
    pub uptime_seconds: u64,
    pub tools: &'a mut dyn Iterator<Item = &'a ToolSpec>,
}

pub fn write_discovery(discovery: Discovery<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    let mut document = Object::new(&mut out);
    let mut server = Object::new(document.member("server"));
    server.text("name", "toolyard").text("version", discovery.server_version);
    server.end();
    let list = document.member("tools");
    list.push(b'[');
    for (i, spec) in discovery.tools.enumerate() {
        if i > 0 {
            list.push(b',');
        }
        push_tool(list, spec);
    }
    list.push(b']');
    document.raw("prompts", b"[]");
    let mut health = Object::new(document.member("health"));
    health.text("status", "ok").number("uptimeSec", discovery.uptime_seconds);
    health.end();
    document.end();
    out
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
    use toolyard_protocol::{ErrorKind, Id, Payload};

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
