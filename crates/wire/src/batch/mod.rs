//! Batches: `{"calls": […]}` with `$from` references, and the conversation form `{"messages", "tool_calls"}`.

mod conversation;
mod dependencies;
mod references;

use crate::outcome;
use bytes::Bytes;
use references::References;
use serde::Deserialize;
use toolyard_formats::json::{self, Object};
use toolyard_protocol::batch::{Action, Batch, Step};
use toolyard_protocol::{Error, ErrorKind, Outcome};

/// The maximum number of calls in a batch.
pub const MAX_CALLS: usize = 256;

/// A batch and, in the conversation form, the messages it continues.
pub struct Request {
    pub batch: Batch,
    pub conversation: Option<Conversation>,
}

pub use conversation::Conversation;

/// Reads either form. Unknown ids, cycles and duplicates are rejected here, before anything runs.
pub fn read(bytes: Bytes) -> Result<Request, Error> {
    let members = json::members(&bytes).map_err(|parse_error| refuse(parse_error.to_string()))?;
    let members = members.ok_or_else(|| refuse("it must be an object"))?;
    if members.iter().any(|(key, _)| key == "tool_calls") {
        return conversation::read(&bytes);
    }
    let known = ["calls"];
    if let Some((key, _)) = members.iter().find(|(key, _)| !known.contains(&key.as_ref())) {
        return Err(refuse(format!("unknown member '{key}'")));
    }
    let Some((_, range)) = members.iter().find(|(key, _)| key == "calls") else {
        return Err(refuse("'calls' is missing"));
    };
    let items =
        json::elements(&bytes[range.clone()]).map_err(|parse_error| refuse(parse_error.to_string()))?;
    let items = items.ok_or_else(|| refuse("'calls' must be a list"))?;
    check_count(items.len())?;
    let mut raw_calls = Vec::with_capacity(items.len());
    for (i, item) in items.into_iter().enumerate() {
        let raw = bytes.slice(range.start + item.start..range.start + item.end);
        raw_calls.push(read_call(raw).map_err(|error| with_call_number(i, error))?);
    }
    Ok(Request { batch: dependencies::build_batch(raw_calls)?, conversation: None })
}

/// `{"status", "results": [{"id", …outcome}]}` in the order of the request.
pub fn write(batch: &Batch, outcomes: &[Outcome]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    let failed = outcomes.iter().filter(|outcome| outcome.error().is_some()).count();
    object.text(
        "status",
        match failed {
            0 => "success",
            _ if failed == outcomes.len() => "failure",
            _ => "partial_success",
        },
    );
    object.objects("results", batch.steps.iter().zip(outcomes), |result, (step, end)| {
        result.text("id", &step.id).raw("outcome", &outcome::write(end));
    });
    object.end();
    out
}

/// Whether a response of [`write`] has a failed call. A message history has no status, and so no failure.
pub fn has_failure(response: &[u8]) -> bool {
    let status = json::pointer(response, "/status").ok().flatten();
    status.is_some_and(|range| &response[range] != b"\"success\"")
}

/// One call before its dependencies are resolved to indices.
struct RawCall {
    id: String,
    action: Action,
    /// Dependencies beyond those of the references.
    depends: Vec<String>,
    references: References,
}

#[derive(Deserialize)]
struct CallHead {
    id: String,
    tool: String,
    #[serde(default)]
    depends: Vec<String>,
}

fn read_call(raw: Bytes) -> Result<RawCall, Error> {
    let members = json::members(&raw).map_err(|parse_error| refuse(parse_error.to_string()))?;
    let members = members.ok_or_else(|| refuse("it must be an object"))?;
    let known = ["id", "tool", "arguments", "depends"];
    if let Some((key, _)) = members.iter().find(|(key, _)| !known.contains(&key.as_ref())) {
        return Err(
            refuse(format!("unknown member '{key}'")).hint("a call has id, tool, arguments and depends")
        );
    }
    let head: CallHead = serde_json::from_slice(&raw).map_err(|error| refuse(error.to_string()))?;
    let arguments = members.iter().find(|(key, _)| key == "arguments");
    let arguments = arguments.map_or(Bytes::from_static(b"{}"), |(_, range)| raw.slice(range.clone()));
    let references = References::find(json::arguments(arguments)?)?;
    Ok(RawCall { id: head.id, action: Action::Call { tool: head.tool }, depends: head.depends, references })
}

fn check_count(count: usize) -> Result<(), Error> {
    match count {
        0 => Err(refuse("it has no calls")),
        1..=MAX_CALLS => Ok(()),
        _ => Err(refuse(format!("it has {count} calls; at most {MAX_CALLS} are allowed"))),
    }
}

fn with_call_number(i: usize, error: Error) -> Error {
    let message = format!("call {}: {}", i + 1, error.message);
    Error { message, ..error }
}

fn refuse(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("not a batch: {what}"))
        .hint("{\"calls\": [{\"id\": \"a\", \"tool\": NAME, \"arguments\": {…}}]}")
}

impl RawCall {
    fn into_step(self, needs: Vec<usize>, index_of: impl Fn(&str) -> Option<usize>) -> Step {
        Step {
            id: self.id,
            action: self.action,
            needs,
            arguments: Box::new(self.references.resolve_ids(index_of)),
        }
    }
}

#[cfg(test)]
mod tests;
