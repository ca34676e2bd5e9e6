//! The `initialize` handshake, and `server/discover` for clients without one.

use super::meta::{ClientCapabilities, TASKS};
use super::result::{SERVER_INFO, complete};
use super::{Revision, lists, v1};
use crate::jsonrpc::{self, Params, RequestId};
use toolyard_formats::json::Object;
use toolyard_protocol::CachePolicy;

/// The capabilities that the server currently has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCapabilities {
    pub resources: bool,
    pub prompts: bool,
    pub tasks: bool,
}

/// The client's side of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    pub revision: Revision,
    pub capabilities: ClientCapabilities,
    pub dialect: Dialect,
}

/// The format of a session's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Standard,
    /// Protocol version 1.0.
    V1 {
        /// The client accepts notifications.
        notifications: bool,
    },
}

impl Handshake {
    pub fn is_v1(&self) -> bool {
        self.dialect != Dialect::Standard
    }

    pub fn has_batches(&self) -> bool {
        self.revision.has_batches() && !self.is_v1()
    }

    pub fn takes_notifications(&self) -> bool {
        self.dialect != Dialect::V1 { notifications: false }
    }
}

/// Reads `initialize`. An unknown or stateless revision is replaced by the newest one with a handshake.
pub fn read_initialize(params: &Params) -> Result<Handshake, String> {
    if params.has("protocol_version") && !params.has("protocolVersion") {
        return v1::read_initialize(params);
    }
    let requested = params.required_text("protocolVersion")?;
    let known = Revision::parse(&requested).filter(|revision| !revision.is_stateless());
    let capabilities = params.object("capabilities")?.ok_or("'capabilities' is missing")?;
    Ok(Handshake {
        revision: known.unwrap_or(Revision::NEWEST_HANDSHAKE),
        capabilities: ClientCapabilities::read(&capabilities),
        dialect: Dialect::Standard,
    })
}

/// The response to `initialize`, in the client's dialect.
pub fn write_initialize_result(
    id: &RequestId,
    handshake: &Handshake,
    server_capabilities: ServerCapabilities,
) -> Vec<u8> {
    let revision = handshake.revision;
    jsonrpc::result(id, 400, |out| {
        let mut result = Object::new(out);
        if handshake.is_v1() {
            v1::push_version_and_capabilities(&mut result, server_capabilities);
        } else {
            result.text("protocolVersion", revision.as_str());
            push_capabilities(result.member("capabilities"), revision, server_capabilities);
        }
        result.raw("serverInfo", SERVER_INFO.as_bytes());
        result.end();
    })
}

pub fn write_discover(
    id: &RequestId,
    revision: Revision,
    server_capabilities: ServerCapabilities,
    cache_policy: CachePolicy,
) -> Vec<u8> {
    jsonrpc::result(id, 400, |out| {
        let mut result = complete(out, revision);
        let stateless = Revision::ALL.into_iter().filter(|revision| revision.is_stateless());
        result.texts("supportedVersions", stateless.map(Revision::as_str));
        push_capabilities(result.member("capabilities"), revision, server_capabilities);
        lists::push_cache_policy(&mut result, revision, cache_policy);
        result.end();
    })
}

fn push_capabilities(out: &mut Vec<u8>, revision: Revision, server_capabilities: ServerCapabilities) {
    const CHANGES: &[u8] = br#"{"listChanged":true}"#;
    let mut object = Object::new(out);
    object.raw("tools", CHANGES).raw("logging", b"{}");
    if server_capabilities.resources {
        object.raw("resources", br#"{"subscribe":true,"listChanged":true}"#);
    }
    if server_capabilities.prompts {
        object.raw("prompts", CHANGES);
    }
    if (server_capabilities.prompts || server_capabilities.resources) && revision.has_annotations() {
        object.raw("completions", b"{}");
    }
    if server_capabilities.tasks && revision.is_stateless() {
        let mut extensions = Object::new(object.member("extensions"));
        extensions.raw(TASKS, b"{}");
        extensions.end();
    }
    object.end();
}
