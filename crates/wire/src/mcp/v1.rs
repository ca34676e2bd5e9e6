//! The MCP 1.0 dialect (protocol version 1.0): content of type `json`, lists as bare arrays, and a code with
//! a message where the standard has an empty result.

use super::initialize::{Dialect, Handshake, ServerCapabilities};
use super::meta::ClientCapabilities;
use super::result;
use super::{Revision, resources};
use crate::jsonrpc::{self, Params, RequestId};
use bytes::Bytes;
use toolyard_formats::json::{self, Object, array};
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{Error, Outcome, Payload, ReadResult};

pub const VERSION: &str = "1.0";

/// The revision that defines everything else: tools have annotations, but no titles.
pub const REVISION: Revision = Revision::V2025_03_26;

/// The notification that a subscribed resource changed.
const UPDATED: &str = "notification/resources/updated";

/// Reads `initialize` of MCP 1.0.
pub fn read_initialize(params: &Params) -> Result<Handshake, String> {
    if params.required_text("protocol_version")? != VERSION {
        return Err(format!(
            "'protocol_version' can only be \"{VERSION}\"; use 'protocolVersion' for later versions"
        ));
    }
    let capabilities = params.object("capabilities")?.unwrap_or_default();
    let members = json::members(&capabilities).ok().flatten().unwrap_or_default();
    let declares = |name: &str| {
        members
            .iter()
            .any(|(key, range)| key == name && !matches!(&capabilities[range.clone()], b"false" | b"null"))
    };
    let dialect = Dialect::V1 { notifications: declares("notifications") };
    Ok(Handshake { revision: REVISION, capabilities: ClientCapabilities::default(), dialect })
}

pub(super) fn push_version_and_capabilities(
    result: &mut Object<'_>,
    server_capabilities: ServerCapabilities,
) {
    result.text("protocol_version", VERSION);
    let mut capabilities = Object::new(result.member("capabilities"));
    capabilities
        .bool("tools", true)
        .bool("resources", server_capabilities.resources)
        .bool("prompts", server_capabilities.prompts);
    capabilities.bool("notifications", true);
    capabilities.end();
}

/// A list as a bare array of its items.
pub fn write_list<T>(id: &RequestId, items: &[T], push: impl Fn(&mut Vec<u8>, &T)) -> Vec<u8> {
    jsonrpc::result(id, items.len() * 128, |out| {
        array(out, items, push);
    })
}

/// The outcome of a call: `{content, isError}`, or an error if the request itself was wrong.
pub fn write_outcome(id: &RequestId, outcome: &Outcome) -> Vec<u8> {
    if let Some(error) = result::protocol_error(outcome) {
        return jsonrpc::error(Some(id), &error);
    }
    let size = |payload: Option<&Payload>| payload.map_or(0, Payload::len);
    jsonrpc::result(id, size(outcome.data()) + size(outcome.content()) + 256, |out| {
        let mut object = Object::new(out);
        push_content(object.member("content"), outcome);
        object.bool("isError", outcome.error().is_some() && outcome.data().is_none());
        result::push_meta(&mut object, outcome, REVISION);
        object.end();
    })
}

/// The tool's own content; otherwise a string as text and any other value as JSON.
fn push_content(out: &mut Vec<u8>, outcome: &Outcome) {
    match (outcome.content(), outcome.data(), outcome.error()) {
        (Some(content), _, _) => out.extend_from_slice(content.bytes()),
        (None, Some(data), _) => {
            let kind = if data.bytes().first() == Some(&b'"') { "text" } else { "json" };
            result::push_block(out, kind, |out| out.extend_from_slice(data.bytes()));
        }
        (None, None, Some(error)) => {
            result::push_block(out, "text", |out| push_json_string(out, &result::format_error(error)));
        }
        (None, None, None) => out.extend_from_slice(b"[]"),
    }
}

/// A single part directly; several parts under the requested URI.
pub fn write_read_result(id: &RequestId, uri: &str, reading: &ReadResult) -> Vec<u8> {
    let size: usize = reading.parts.iter().map(|part| part.body.len() * 3 / 2 + 128).sum();
    jsonrpc::result(id, size, |out| push_read_result(out, uri, reading))
}

fn push_read_result(out: &mut Vec<u8>, uri: &str, reading: &ReadResult) {
    let mut object = Object::new(out);
    if let [part] = reading.parts.as_slice() {
        resources::push_content(&mut object, part);
    } else {
        object.text("uri", uri);
        array(object.member("contents"), &reading.parts, resources::push_part);
    }
    object.end();
}

/// A completed operation on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceAction {
    Written,
    Deleted,
    Subscribed,
    Unsubscribed,
}

/// The resource that a request refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRef {
    pub uri: String,
    /// The client's name for it, or else the last part of the URI.
    pub name: String,
}

impl ResourceRef {
    pub fn read(params: &Params) -> Result<ResourceRef, String> {
        Ok(ResourceRef::new(params.required_text("uri")?, params.text("name")?))
    }

    /// In MCP 1.0 a client ends a subscription by sending a result: `{uri, name}`.
    pub fn from_result(raw: &Bytes) -> Option<ResourceRef> {
        let members = json::members(raw).ok()??;
        let find = |name: &str| {
            members
                .iter()
                .find(|(key, _)| key == name)
                .and_then(|(_, range)| jsonrpc::text(&raw[range.clone()]))
        };
        Some(ResourceRef::new(find("uri")?, find("name")))
    }

    fn new(uri: String, name: Option<String>) -> ResourceRef {
        let last = || uri.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        ResourceRef { name: name.unwrap_or_else(last), uri }
    }
}

/// `{uri, name, code, message}`.
pub fn write_action_result(id: &RequestId, subject: &ResourceRef, done: ResourceAction) -> Vec<u8> {
    let message = match done {
        ResourceAction::Written => "Resource written successfully",
        ResourceAction::Deleted => "Resource deleted successfully",
        ResourceAction::Subscribed => "Resource subscribed successfully",
        ResourceAction::Unsubscribed => "Resource unsubscribed successfully",
    };
    jsonrpc::result(id, 160, |out| {
        let mut object = Object::new(out);
        object.text("uri", &subject.uri).text("name", &subject.name);
        object.number("code", 200).text("message", message);
        object.end();
    })
}

/// A subscribed resource changed: its new contents, under the id of the request that subscribed to it.
pub fn updated(subscription: &RequestId, uri: &str, found: &Result<ReadResult, Error>) -> Vec<u8> {
    jsonrpc::message(256, |message| {
        let out = message.raw("id", subscription.as_bytes()).member("result");
        match found {
            Ok(reading) => push_read_result(out, uri, reading),
            Err(error) => {
                let mut object = Object::new(out);
                object.text("uri", uri).number("code", u64::from(error.kind.row().http));
                object.text("message", &error.message);
            }
        }
        // The method is added for clients that dispatch by it.
        message.text("method", UPDATED);
    })
}
