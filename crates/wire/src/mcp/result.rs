//! The members that all results share, and the result of a tool call.

use super::Revision;
use crate::envelope;
use crate::jsonrpc::{self, RequestId};
use std::borrow::Cow;
use toolyard_formats::json::{Object, members, push_objects};
use toolyard_protocol::error_table::McpErrorMapping;
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{Error, Outcome, Payload, RpcError};

/// Name and version of this server.
pub const SERVER_INFO: &str =
    concat!(r#"{"name":"toolyard","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Larger results are written into exactly as much memory as they need.
const LARGE: usize = 16 << 10;

/// Starts a result that completes its request.
pub fn complete(out: &mut Vec<u8>, revision: Revision) -> Object<'_> {
    typed(out, revision, "complete")
}

/// Starts a result of the given type; handshake revisions have no result types.
pub fn typed<'a>(out: &'a mut Vec<u8>, revision: Revision, kind: &str) -> Object<'a> {
    let mut object = Object::new(out);
    if revision.is_stateless() {
        object.text("resultType", kind);
        let mut meta = Object::new(object.member("_meta"));
        meta.raw(SERVER_INFO_KEY, SERVER_INFO.as_bytes());
        meta.end();
    }
    object
}

/// An empty result in the revision's format.
pub fn empty(id: &RequestId, revision: Revision) -> Vec<u8> {
    jsonrpc::result(id, 160, |out| complete(out, revision).end())
}

/// The outcome of a call as a response: a result, or an error if the request itself was wrong.
pub fn write_outcome(id: &RequestId, outcome: &Outcome, revision: Revision) -> Vec<u8> {
    if let Some(error) = protocol_error(outcome) {
        return jsonrpc::error(Some(id), &error);
    }
    let size = |payload: Option<&Payload>| payload.map_or(0, Payload::len);
    let capacity =
        2 * size(outcome.data()) + outcome.data().map_or(0, escapes) + size(outcome.content()) + 256;
    jsonrpc::result(id, capacity, |out| push_outcome(out, outcome, revision))
}

/// About how many bytes the data grows as text. Counted when it is large, because room that is not used takes memory.
fn escapes(data: &Payload) -> usize {
    let bytes = data.bytes();
    match bytes.first() {
        Some(b'"') => 0,
        _ if bytes.len() < LARGE => bytes.len() / 2,
        _ => bytes.iter().filter(|&&byte| matches!(byte, b'"' | b'\\' | ..b' ')).count(),
    }
}

/// The JSON-RPC error of an outcome: one that the tool chose, or an error in the request itself.
pub fn protocol_error(outcome: &Outcome) -> Option<Cow<'_, RpcError>> {
    let error = outcome.error()?;
    if let Some(rpc) = &error.details.rpc {
        return Some(Cow::Borrowed(rpc));
    }
    match error.kind.row().mcp {
        McpErrorMapping::JsonRpc(code) => Some(Cow::Owned(rpc_error(error, code))),
        McpErrorMapping::ErrorResult => None,
    }
}

/// An error with all details in `data`.
pub(super) fn rpc_error(error: &Error, code: i64) -> RpcError {
    let mut data = Vec::new();
    envelope::push_error(&mut data, error);
    RpcError { code, message: error.message.clone(), data: Some(Payload::json(data)) }
}

/// Writes the result of a tool call.
pub fn push_outcome(out: &mut Vec<u8>, outcome: &Outcome, revision: Revision) {
    let mut object = Object::new(out);
    if revision.is_stateless() {
        object.text("resultType", "complete");
    }
    match (outcome.content(), outcome.data(), outcome.error()) {
        (Some(content), _, _) => object.raw("content", content.bytes()),
        (None, Some(data), _) => {
            push_text(object.member("content"), data);
            &mut object
        }
        (None, None, Some(error)) => {
            push_block(object.member("content"), "text", |out| push_json_string(out, &format_error(error)));
            &mut object
        }
        (None, None, None) => object.raw("content", b"[]"),
    };
    if let Some(data) = outcome.data().or_else(|| structured_failure(outcome))
        && revision.has_structure()
    {
        push_structured(object.member("structuredContent"), data, revision);
    }
    // A partial success is a success; its error is in `_meta`.
    if outcome.error().is_some() && outcome.data().is_none() {
        object.bool("isError", true);
    }
    push_meta(&mut object, outcome, revision);
    object.end();
}

/// The `structuredContent` that a tool returned beside content with `isError`.
fn structured_failure(outcome: &Outcome) -> Option<&Payload> {
    outcome.content()?;
    outcome.error()?.details.tool_details.as_ref()
}

/// Writes the data as one text block: JSON text, or the string itself.
fn push_text(out: &mut Vec<u8>, data: &Payload) {
    let bytes = data.bytes();
    push_block(out, "text", |out| {
        if bytes.first() == Some(&b'"') {
            out.extend_from_slice(bytes);
        } else {
            push_json_string(out, std::str::from_utf8(bytes).unwrap_or_default());
        }
    });
}

/// Writes content that is one block; its only member beside `type` is named after the type.
pub(super) fn push_block(out: &mut Vec<u8>, kind: &str, write: impl Fn(&mut Vec<u8>)) {
    push_objects(out, [kind], |block, kind| write(block.text("type", kind).member(kind)));
}

/// Before 2026-07-28 only objects are allowed: other values are wrapped.
fn push_structured(out: &mut Vec<u8>, data: &Payload, revision: Revision) {
    if revision.is_stateless() || data.bytes().first() == Some(&b'{') {
        out.extend_from_slice(data.bytes());
    } else {
        let mut object = Object::new(out);
        object.raw("result", data.bytes());
        object.end();
    }
}

/// Writes `_meta`: the tool's own members, then ours. A tool cannot write members with our names.
pub(super) fn push_meta(object: &mut Object<'_>, outcome: &Outcome, revision: Revision) {
    let meta = &outcome.meta;
    let mut out = Object::new(object.member("_meta"));
    if let Some(own) = &meta.tool_meta {
        for (name, range) in members(own.bytes()).ok().flatten().unwrap_or_default() {
            if !name.starts_with("toolyard/") && name != SERVER_INFO_KEY {
                out.raw(&name, &own.bytes()[range]);
            }
        }
    }
    if revision.is_stateless() {
        out.raw(SERVER_INFO_KEY, SERVER_INFO.as_bytes());
    }
    if let Some(id) = meta.call_id {
        out.text("toolyard/call", id.text().as_str());
    }
    if meta.cached {
        out.bool("toolyard/cached", true);
    }
    if !meta.warnings.is_empty() {
        out.texts("toolyard/warnings", meta.warnings.iter().map(String::as_str));
    }
    if let Some(error) = outcome.error() {
        match structured_failure(outcome).filter(|_| revision.has_structure()) {
            // Those details are the structured content, where the tool put them.
            Some(_) => envelope::push_error(
                out.member("toolyard/error"),
                &error.clone().with(|details| details.tool_details = None),
            ),
            None => envelope::push_error(out.member("toolyard/error"), error),
        }
    }
    out.end();
}

/// The error as text for a model, with what it needs to correct the call.
pub(super) fn format_error(error: &Error) -> String {
    let mut text = format!("error[{}]: {}", error.code(), error.message);
    for violation in error.details.violations.iter().skip(1).take(20) {
        match violation.pointer.as_str() {
            "" => text += &format!("\n{}", violation.message),
            pointer => text += &format!("\nat {pointer}: {}", violation.message),
        }
    }
    if let Some(after) = error.details.retry_after {
        text += &format!("\ntry again in {} ms", after.as_millis());
    }
    if let Some(hint) = &error.hint {
        text += &format!("\nhint: {hint}");
    }
    if let Some(stderr) = &error.details.stderr {
        text += &format!("\nstderr: {stderr}");
    }
    text
}
