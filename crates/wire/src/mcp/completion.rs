//! `completion/complete`: suggestions for an argument of a prompt or a variable of a template.

use super::{Revision, result};
use crate::jsonrpc::{self, Params, RequestId};
use bytes::Bytes;
use toolyard_formats::json::{self, Object};
use toolyard_protocol::{Completion, CompletionRequest, Payload};

/// What a completion is for.
#[derive(Debug, PartialEq, Eq)]
pub enum CompletionTarget {
    Prompt(String),
    /// An RFC 6570 template.
    Template(String),
}

/// The maximum number of values in a response.
const MAX_VALUES: usize = 100;

pub fn read(params: &Params) -> Result<(CompletionTarget, CompletionRequest), String> {
    let reference = params.object("ref")?.ok_or("'ref' is missing")?;
    let subject = match member(&reference, "type")?.as_deref() {
        Some("ref/prompt") => {
            CompletionTarget::Prompt(member(&reference, "name")?.ok_or("'ref.name' is missing")?)
        }
        Some("ref/resource") => {
            CompletionTarget::Template(member(&reference, "uri")?.ok_or("'ref.uri' is missing")?)
        }
        _ => return Err("'ref.type' must be \"ref/prompt\" or \"ref/resource\"".to_owned()),
    };
    let argument = params.object("argument")?.ok_or("'argument' is missing")?;
    let context = params.object("context")?.unwrap_or_default();
    let known = object_member(&context, "arguments").unwrap_or_else(|| Bytes::from_static(b"{}"));
    let completing = CompletionRequest {
        argument: member(&argument, "name")?.ok_or("'argument.name' is missing")?,
        value: member(&argument, "value")?.unwrap_or_default(),
        known: Payload::json(known),
    };
    Ok((subject, completing))
}

pub fn write(id: &RequestId, revision: Revision, completion: &Completion) -> Vec<u8> {
    jsonrpc::result(id, 256, |out| {
        let mut object = result::complete(out, revision);
        let mut values = Object::new(object.member("completion"));
        let shown = completion.values.iter().take(MAX_VALUES).map(String::as_str);
        values.texts("values", shown);
        let count = completion.values.len();
        let total = completion.total.unwrap_or(count as u64);
        values.number("total", total).bool("hasMore", total > count.min(MAX_VALUES) as u64);
        values.end();
        object.end();
    })
}

fn member(raw: &Bytes, name: &str) -> Result<Option<String>, String> {
    let members = json::members(raw).ok().flatten().unwrap_or_default();
    let Some((_, range)) = members.iter().find(|(key, _)| key == name) else { return Ok(None) };
    jsonrpc::text(&raw[range.clone()]).map(Some).ok_or_else(|| format!("'{name}' must be a string"))
}

fn object_member(raw: &Bytes, name: &str) -> Option<Bytes> {
    let members = json::members(raw).ok()??;
    let (_, range) = members.iter().find(|(key, _)| key == name)?;
    Some(raw.slice(range.clone())).filter(|raw| raw.first() == Some(&b'{'))
}
