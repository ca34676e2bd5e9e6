//! How a conversation begins: the handshake of `initialize`, or `server/discover` without one.

use super::capabilities::{ClientCapabilities, TASKS};
use super::result::{SERVER_INFO, complete};
use super::{Revision, dialect, lists};
use crate::json::Object;
use crate::jsonrpc::{self, Params, RequestId};
use toolyard_protocol::Keep;

/// What this server can do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub resources: bool,
    pub prompts: bool,
    pub tasks: bool,
}

/// What a client says in its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub revision: Revision,
    pub capabilities: ClientCapabilities,
    pub dialect: Dialect,
}

/// How a session's results look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Standard,
    /// Protocol version 1.0, seed 000's own.
    First {
        /// The client takes what it did not ask for.
        notifications: bool,
    },
}

impl Hello {
    pub fn is_first(&self) -> bool {
        self.dialect != Dialect::Standard
    }

    pub fn has_batches(&self) -> bool {
        self.revision.has_batches() && !self.is_first()
    }

    pub fn takes_notifications(&self) -> bool {
        self.dialect != Dialect::First { notifications: false }
    }
}

/// Reads `initialize`. A revision that we do not know, or that has no handshake, gets the newest one that has.
pub fn read_initialize(params: &Params) -> Result<Hello, String> {
    if params.has("protocol_version") && !params.has("protocolVersion") {
        return dialect::read_initialize(params);
    }
    let asked = params.need("protocolVersion")?;
    let known = Revision::parse(&asked).filter(|revision| !revision.is_stateless());
    let capabilities = params.object("capabilities")?.ok_or("'capabilities' is missing")?;
    Ok(Hello {
        revision: known.unwrap_or(Revision::NEWEST_HANDSHAKE),
        capabilities: ClientCapabilities::read(&capabilities),
        dialect: Dialect::Standard,
    })
}

/// The answer to a client's handshake, in its own dialect.
pub fn write_welcome(id: &RequestId, hello: &Hello, offer: Offer) -> Vec<u8> {
    if hello.is_first() {
        dialect::write_initialize(id, offer)
    } else {
        write_initialize(id, hello.revision, offer)
    }
}

pub fn write_initialize(id: &RequestId, revision: Revision, offer: Offer) -> Vec<u8> {
    jsonrpc::result(id, 400, |out| {
        let mut result = Object::new(out);
        result.text("protocolVersion", revision.as_str());
        push_capabilities(result.member("capabilities"), revision, offer);
        result.raw("serverInfo", SERVER_INFO.as_bytes());
        result.end();
    })
}

pub fn write_discover(id: &RequestId, revision: Revision, offer: Offer, keep: Keep) -> Vec<u8> {
    jsonrpc::result(id, 400, |out| {
        let mut result = complete(out, revision);
        let stateless = Revision::ALL.into_iter().filter(|revision| revision.is_stateless());
        result.texts("supportedVersions", stateless.map(Revision::as_str));
        push_capabilities(result.member("capabilities"), revision, offer);
        lists::push_keep(&mut result, revision, keep);
        result.end();
    })
}

fn push_capabilities(out: &mut Vec<u8>, revision: Revision, offer: Offer) {
    const CHANGES: &[u8] = br#"{"listChanged":true}"#;
    let mut object = Object::new(out);
    object.raw("tools", CHANGES).raw("logging", b"{}");
    if offer.resources {
        object.raw("resources", br#"{"subscribe":true,"listChanged":true}"#);
    }
    if offer.prompts {
        object.raw("prompts", CHANGES);
    }
    if (offer.prompts || offer.resources) && revision.has_annotations() {
        object.raw("completions", b"{}");
    }
    if offer.tasks && revision.is_stateless() {
        let mut extensions = Object::new(object.member("extensions"));
        extensions.raw(TASKS, b"{}");
        extensions.end();
    }
    object.end();
}
