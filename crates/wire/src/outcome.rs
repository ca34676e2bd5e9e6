//! Lossless encoding of an outcome as one JSON object, for stores and the responses of `/v1/`.

use crate::envelope::push_violations;
use crate::jsonrpc;
use bytes::Bytes;
use serde::Deserialize;
use std::time::Duration;
use toolyard_formats::json::{self, Object};
use toolyard_protocol::text::{from_hex, push_hex};
use toolyard_protocol::{
    Details, Error, ErrorKind, Format, Id, JobState, Meta, Outcome, OutcomeCodec, Payload, RpcError, Sandbox,
    Status, Violation,
};

/// Implements [`OutcomeCodec`].
pub struct JsonOutcomeCodec;

impl OutcomeCodec for JsonOutcomeCodec {
    fn write(&self, outcome: &Outcome) -> Payload {
        Payload::json(write(outcome))
    }

    fn read(&self, payload: &Payload) -> Result<Outcome, Error> {
        read(payload.bytes())
    }
}

pub fn write(outcome: &Outcome) -> Vec<u8> {
    let mut out = Vec::with_capacity(outcome.data().map_or(0, Payload::len) + 192);
    let mut object = Object::new(&mut out);
    object.text("status", outcome.status().as_str());
    push_payload(&mut object, "data", outcome.data());
    push_payload(&mut object, "content", outcome.content());
    if let Some(error) = outcome.error() {
        push_error(object.member("error"), error);
    }
    if let Some(explanation) = outcome.explanation() {
        object.text("explanation", explanation);
    }
    push_meta(object.member("meta"), &outcome.meta);
    object.end();
    out
}

/// JSON is embedded; MsgPack is written as hex in a member with another name.
fn push_payload(object: &mut Object<'_>, name: &str, payload: Option<&Payload>) {
    match payload {
        None => {}
        Some(payload) if payload.format() == Format::Json => {
            object.raw(name, payload.bytes());
        }
        Some(payload) => {
            let out = object.member(&format!("{name}_msgpack"));
            out.push(b'"');
            push_hex(out, payload.bytes());
            out.push(b'"');
        }
    }
}

fn push_error(out: &mut Vec<u8>, error: &Error) {
    let Details { violations, stderr, exit, tool_code, tool_details, retry_after, rpc } =
        error.details.as_ref();
    let row = error.kind.row();
    let mut object = Object::new(out);
    object.text("kind", row.name).text("code", row.code).text("message", &error.message);
    let id = error.correlation_id.map(|id| id.to_string());
    let texts = [
        ("hint", &error.hint),
        ("correlation_id", &id),
        ("stderr", stderr),
        ("exit", exit),
        ("tool_code", tool_code),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            object.text(name, value);
        }
    }
    push_payload(&mut object, "tool_details", tool_details.as_ref());
    if let Some(after) = retry_after {
        object.number("retry_after_ms", after.as_millis() as u64);
    }
    if let Some(rpc) = rpc {
        jsonrpc::push_error(object.member("rpc"), rpc);
    }
    if !violations.is_empty() {
        push_violations(object.member("violations"), violations);
    }
    object.end();
}

fn push_meta(out: &mut Vec<u8>, meta: &Meta) {
    let mut object = Object::new(out);
    if let Some(id) = meta.call_id {
        object.text("call_id", id.text().as_str());
    }
    object.number("duration_us", meta.duration.as_micros() as u64);
    object.bool("cached", meta.cached).number("attempts", meta.attempts.into());
    if let Some(sandbox) = meta.sandbox {
        object.text("sandbox", sandbox.as_str());
    }
    if let Some((id, state)) = meta.job {
        object.text("job_id", id.text().as_str()).text("job_state", state.as_str());
    }
    push_payload(&mut object, "tool_meta", meta.tool_meta.as_ref());
    if !meta.warnings.is_empty() {
        object.texts("warnings", meta.warnings.iter().map(String::as_str));
    }
    object.end();
}

/// The members that serde reads; payloads are taken from the text as raw bytes.
#[derive(Deserialize)]
struct Read {
    status: String,
    explanation: Option<String>,
    error: Option<ReadError>,
    #[serde(default)]
    meta: ReadMeta,
}

#[derive(Deserialize)]
struct ReadError {
    kind: String,
    message: String,
    hint: Option<String>,
    correlation_id: Option<String>,
    stderr: Option<String>,
    exit: Option<String>,
    tool_code: Option<String>,
    retry_after_ms: Option<u64>,
    #[serde(default)]
    violations: Vec<ReadViolation>,
    rpc: Option<ReadRpc>,
}

#[derive(Deserialize)]
struct ReadRpc {
    code: i64,
    message: String,
}

#[derive(Deserialize)]
struct ReadViolation {
    pointer: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReadMeta {
    call_id: Option<String>,
    duration_us: u64,
    cached: bool,
    attempts: u32,
    sandbox: Option<String>,
    job_id: Option<String>,
    job_state: Option<String>,
    warnings: Vec<String>,
}

pub fn read(bytes: &Bytes) -> Result<Outcome, Error> {
    let refuse = |what: String| Error::new(ErrorKind::InvalidOutput, format!("not an outcome: {what}"));
    let read: Read = serde_json::from_slice(bytes).map_err(|error| refuse(error.to_string()))?;
    let status = Status::parse(&read.status).ok_or_else(|| refuse(format!("status '{}'", read.status)))?;
    let data = payload(bytes, "data").map_err(refuse)?;
    let content = payload(bytes, "content").map_err(refuse)?;
    let error = read.error.map(|error| read_error(bytes, error)).transpose().map_err(refuse)?;
    let mut outcome = Outcome::new(status, data, error).map_err(|rule| refuse(rule.to_string()))?;
    if let Some(content) = content {
        outcome = outcome.with_content(content);
    }
    if let Some(explanation) = read.explanation {
        outcome = outcome.with_explanation(explanation);
    }
    outcome.meta = read_meta(read.meta);
    outcome.meta.tool_meta = payload(&member(bytes, "meta").map_err(refuse)?, "tool_meta").map_err(refuse)?;
    Ok(outcome)
}

fn payload(object: &Bytes, name: &str) -> Result<Option<Payload>, String> {
    let members = json::members(object).map_err(|parse_error| parse_error.to_string())?.unwrap_or_default();
    let find = |name: &str| {
        members.iter().find(|(key, _)| key == name).map(|(_, range)| object.slice(range.clone()))
    };
    if let Some(raw) = find(name) {
        return Ok(Some(Payload::json(raw)));
    }
    let Some(raw) = find(&format!("{name}_msgpack")) else { return Ok(None) };
    let bytes = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\"")).and_then(from_hex);
    Ok(Some(Payload::new(Format::MsgPack, bytes.ok_or(format!("'{name}_msgpack' is not hex"))?)))
}

fn read_error(outcome: &Bytes, read: ReadError) -> Result<Error, String> {
    let kind = ErrorKind::from_name(&read.kind).ok_or(format!("error kind '{}'", read.kind))?;
    let whole = member(outcome, "error")?;
    let tool_details = payload(&whole, "tool_details")?;
    let rpc = match read.rpc {
        Some(ReadRpc { code, message }) => {
            Some(RpcError { code, message, data: payload(&member(&whole, "rpc")?, "data")? })
        }
        None => None,
    };
    let violations =
        read.violations.into_iter().map(|v| Violation { pointer: v.pointer, message: v.message });
    Ok(Error {
        kind,
        message: read.message,
        hint: read.hint,
        correlation_id: read.correlation_id.as_deref().and_then(Id::parse),
        details: Box::new(Details {
            violations: violations.collect(),
            stderr: read.stderr,
            exit: read.exit,
            tool_code: read.tool_code,
            tool_details,
            retry_after: read.retry_after_ms.map(Duration::from_millis),
            rpc,
        }),
    })
}

fn read_meta(read: ReadMeta) -> Meta {
    let job = read.job_id.as_deref().and_then(Id::parse);
    Meta {
        call_id: read.call_id.as_deref().and_then(Id::parse),
        duration: Duration::from_micros(read.duration_us),
        cached: read.cached,
        attempts: read.attempts,
        sandbox: read.sandbox.as_deref().and_then(Sandbox::parse),
        job: job.zip(read.job_state.as_deref().and_then(JobState::parse)),
        warnings: read.warnings,
        tool_meta: None,
    }
}

/// The raw value of a member; an empty object if it is absent.
fn member(object: &Bytes, name: &str) -> Result<Bytes, String> {
    let members = json::members(object).map_err(|parse_error| parse_error.to_string())?.unwrap_or_default();
    let found = members.iter().find(|(key, _)| key == name).map(|(_, range)| object.slice(range.clone()));
    Ok(found.unwrap_or_else(|| Bytes::from_static(b"{}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_round_trip_without_loss() {
        let id = Id::from_parts(1_794_775_458_123, [7; 10]);
        let error = Error::new(ErrorKind::RateLimited, "slow \"down\"\n").hint("wait").with(|details| {
            details.violations = vec![Violation { pointer: "/a~1b".into(), message: "é".into() }];
            details.stderr = Some("boom".into());
            details.exit = Some("exit status 1".into());
            details.tool_code = Some("E42".into());
            details.tool_details = Some(Payload::json(r#"{"n":12345678901234567890.5}"#));
            details.retry_after = Some(Duration::from_millis(1500));
            details.rpc =
                Some(RpcError { code: -32042, message: "no".into(), data: Some(Payload::json("[1.50]")) });
        });
        let error = Error { correlation_id: Some(id), ..error };
        let data = Payload::json(r#"{"big":123456789012345678901234567890,"null":null}"#);
        let mut outcome = Outcome::new(Status::PartialSuccess, Some(data), Some(error))
            .unwrap()
            .with_content(Payload::json(r#"[{"type":"text","text":"x"}]"#))
            .with_explanation("half of it");
        outcome.meta = Meta {
            call_id: Some(id),
            duration: Duration::from_micros(1234),
            cached: true,
            attempts: 3,
            sandbox: Some(Sandbox::Landlock),
            job: Some((id, JobState::Complete)),
            warnings: vec!["w".into()],
            tool_meta: Some(Payload::json(r#"{"a":1}"#)),
        };
        let outcomes = [
            outcome,
            Outcome::success(None),
            Outcome::success(Some(Payload::json("null"))),
            Outcome::success(Some(Payload::new(Format::MsgPack, vec![0x81, 0xa1, 0x61, 0xc0]))),
            Outcome::failure(Error::new(ErrorKind::Internal, "")),
        ];
        for outcome in outcomes {
            assert_eq!(JsonOutcomeCodec.read(&JsonOutcomeCodec.write(&outcome)).unwrap(), outcome);
        }
    }

    #[test]
    fn invalid_outcomes_are_rejected_with_the_reason() {
        for (text, what) in [
            ("", "EOF"),
            ("[]", "invalid"),
            (r#"{"status":"banana"}"#, "banana"),
            (r#"{"status":"failure"}"#, "needs an 'error'"),
            (r#"{"status":"failure","error":{"kind":"odd","message":"m"}}"#, "odd"),
        ] {
            let error = read(&Bytes::from(text)).unwrap_err();
            assert!(error.message.contains(what), "{text}: {}", error.message);
        }
    }
}
