//! The conversation form of a batch: `messages` and `tool_calls` with JSON-RPC requests; the response is the
//! extended message history.

use super::references::References;
use super::{RawCall, Request, check_count, dependencies, refuse, with_call_number};
use crate::render;
use bytes::Bytes;
use serde::Deserialize;
use toolyard_formats::json::{self, Object, array};
use toolyard_protocol::batch::Action;
use toolyard_protocol::{Error, Outcome};

/// The messages and calls of the request, from which the history is written.
pub struct Conversation {
    /// Raw messages, passed through unchanged.
    messages: Vec<Bytes>,
    requests: Vec<Bytes>,
    reads: Vec<bool>,
}

impl Conversation {
    /// The history: the messages of the request, then the request and response of each call. A resource has
    /// the role `system`, a tool's result the role `tool`.
    pub fn write(&self, outcomes: &[Outcome]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = Object::new(&mut out);
        let mut messages = self.messages.iter().map(|raw| raw.to_vec()).collect::<Vec<_>>();
        for ((request, read), outcome) in self.requests.iter().zip(&self.reads).zip(outcomes) {
            messages.push(message("assistant", &String::from_utf8_lossy(request)));
            let text = match outcome.error() {
                Some(error) => format!("error[{}]: {}", error.code(), error.message),
                None => render::plain(outcome),
            };
            messages.push(message(if *read { "system" } else { "tool" }, &text));
        }
        array(object.member("messages"), messages, |out, message| out.extend_from_slice(&message));
        object.end();
        out
    }
}

fn message(role: &str, content: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    object.text("role", role).text("content", content);
    object.end();
    out
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RpcRequest {
    jsonrpc: String,
    method: String,
    id: String,
    // Parsed from the raw text later, so that arguments stay unchanged.
    #[serde(rename = "params")]
    _params: serde_json::Value,
}

pub fn read(bytes: &Bytes) -> Result<Request, Error> {
    let list = |name: &str| -> Result<Vec<Bytes>, Error> {
        let Some(raw) = member(bytes, name)? else { return Ok(Vec::new()) };
        let items = json::elements(&raw).map_err(|parse_error| refuse(parse_error.to_string()))?;
        let items = items.ok_or_else(|| refuse(format!("'{name}' must be a list")))?;
        Ok(items.into_iter().map(|range| raw.slice(range)).collect())
    };
    let (messages, calls) = (list("messages")?, list("tool_calls")?);
    check_count(calls.len())?;
    let mut rpcs = Vec::with_capacity(calls.len());
    for (i, call) in calls.iter().enumerate() {
        rpcs.push(read_rpc(call).map_err(|error| with_call_number(i, error))?);
    }
    let ids: Vec<String> = rpcs.iter().map(|(rpc, ..)| rpc.id.clone()).collect();
    let mut raw_calls = Vec::with_capacity(rpcs.len());
    let (mut requests, mut reads) = (Vec::new(), Vec::new());
    for (i, (rpc, raw, read)) in rpcs.into_iter().enumerate() {
        requests.push(raw.clone());
        reads.push(read);
        raw_calls.push(read_call(rpc, &raw, read, &ids).map_err(|error| with_call_number(i, error))?);
    }
    let conversation = Some(Conversation { messages, requests, reads });
    Ok(Request { batch: dependencies::build_batch(raw_calls)?, conversation })
}

/// `{"resource_call": {…}}` or `{"tool_call": {…}}`; the flag is true for a resource.
fn read_rpc(call: &Bytes) -> Result<(RpcRequest, Bytes, bool), Error> {
    let resource = member(call, "resource_call")?;
    let (raw, read) = match (resource, member(call, "tool_call")?) {
        (Some(raw), None) => (raw, true),
        (None, Some(raw)) => (raw, false),
        _ => return Err(refuse("it must have 'resource_call' or 'tool_call'")),
    };
    let rpc: RpcRequest = serde_json::from_slice(&raw).map_err(|error| refuse(error.to_string()))?;
    let method = if read { "resources/read" } else { "tools/call" };
    if rpc.jsonrpc != "2.0" || rpc.method != method {
        return Err(refuse(format!("'jsonrpc' must be 2.0 and 'method' {method}")));
    }
    Ok((rpc, raw, read))
}

fn read_call(rpc: RpcRequest, raw: &Bytes, read: bool, ids: &[String]) -> Result<RawCall, Error> {
    let params = member(raw, "params")?.ok_or_else(|| refuse("'params' is missing"))?;
    let text = |name: &str| -> Result<String, Error> {
        let raw = member(&params, name)?.ok_or_else(|| refuse(format!("'params.{name}' is missing")))?;
        serde_json::from_slice(&raw).map_err(|_| refuse(format!("'params.{name}' must be a string")))
    };
    if read {
        let references = References::find_placeholders(json::arguments(Bytes::from_static(b"{}"))?, &[])?;
        return Ok(RawCall {
            id: rpc.id,
            action: Action::Read { uri: text("uri")? },
            depends: Vec::new(),
            references,
        });
    }
    let tool = text("tool_name").or_else(|error| text("name").map_err(|_| error))?;
    let arguments = member(&params, "arguments")?.unwrap_or_else(|| Bytes::from_static(b"{}"));
    let depends = match member(&arguments, "depends")? {
        None => Vec::new(),
        Some(raw) => names(&raw)?,
    };
    let references = References::find_placeholders(json::arguments(without(&arguments, "depends")?)?, ids)?;
    Ok(RawCall { id: rpc.id, action: Action::Call { tool }, depends, references })
}

/// A name or a list of names.
fn names(raw: &[u8]) -> Result<Vec<String>, Error> {
    if let Ok(name) = serde_json::from_slice::<String>(raw) {
        return Ok(vec![name]);
    }
    serde_json::from_slice(raw).map_err(|_| refuse("'depends' must be an id or a list of ids"))
}

fn member(object: &Bytes, name: &str) -> Result<Option<Bytes>, Error> {
    let members = json::members(object).map_err(|parse_error| refuse(parse_error.to_string()))?;
    let members = members.ok_or_else(|| refuse("expected an object"))?;
    Ok(members.into_iter().find(|(key, _)| key == name).map(|(_, range)| object.slice(range)))
}

/// The object without one member; the others are unchanged.
fn without(object: &Bytes, name: &str) -> Result<Vec<u8>, Error> {
    let members =
        json::members(object).map_err(|parse_error| refuse(parse_error.to_string()))?.unwrap_or_default();
    let mut out = Vec::with_capacity(object.len());
    let mut rest = Object::new(&mut out);
    for (key, range) in members.iter().filter(|(key, _)| key != name) {
        rest.raw(key, &object[range.clone()]);
    }
    rest.end();
    Ok(out)
}
