//! `_meta` of a request: what a stateless client says each time, and what every client may add.

use super::Revision;
use super::capabilities::ClientCapabilities;
use crate::jsonrpc::{self, Params};
use bytes::Bytes;
use toolyard_protocol::{LogLevel, TraceContext};

pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// What every request of a stateless client carries.
pub struct RequestMeta {
    pub capabilities: ClientCapabilities,
    /// Without it the client wants no log.
    pub log: Option<LogLevel>,
}

/// Why `_meta` does not do.
#[derive(Debug, PartialEq, Eq)]
pub enum MetaError {
    /// Something required is missing or of the wrong kind.
    Invalid(String),
    /// A revision that we do not speak this way.
    Unsupported(String),
}

/// The revision that the request names, whatever it is.
pub fn version(params: &Params) -> Option<String> {
    params.meta(VERSION).map(|raw| jsonrpc::text(&raw).unwrap_or_else(|| "?".to_owned()))
}

impl RequestMeta {
    pub fn read(params: &Params) -> Result<RequestMeta, MetaError> {
        let missing = |name: &str| MetaError::Invalid(format!("'params._meta' must hold '{name}'"));
        let version = version(params).ok_or_else(|| missing(VERSION))?;
        if !Revision::parse(&version).is_some_and(Revision::is_stateless) {
            return Err(MetaError::Unsupported(version));
        }
        let capabilities = params.meta(CAPABILITIES).ok_or_else(|| missing(CAPABILITIES))?;
        if capabilities.first() != Some(&b'{') {
            return Err(MetaError::Invalid(format!("'{CAPABILITIES}' must be an object")));
        }
        let log = match params.meta(LOG_LEVEL) {
            None => None,
            Some(raw) => {
                let level = jsonrpc::text(&raw).and_then(|text| LogLevel::parse(&text));
                Some(level.ok_or_else(|| MetaError::Invalid(format!("'{LOG_LEVEL}' is not a log level")))?)
            }
        };
        Ok(RequestMeta { capabilities: ClientCapabilities::read(&capabilities), log })
    }
}

/// The token that progress is reported under: a string or a number, raw.
pub fn progress_token(params: &Params) -> Option<Bytes> {
    params.meta("progressToken").filter(|raw| matches!(raw.first(), Some(b'"' | b'-' | b'0'..=b'9')))
}

/// A broken traceparent starts no trace; the W3C text asks for that, not for an error.
pub fn trace(params: &Params) -> Option<TraceContext> {
    params.meta("traceparent").and_then(|raw| TraceContext::parse(&jsonrpc::text(&raw)?))
}
