//! `_meta` of a request: what a stateless client declares with each request, and the optional members of every request.

use super::{Revision, notifications};
use crate::jsonrpc::{self, Params};
use bytes::Bytes;
use toolyard_formats::json;
use toolyard_protocol::{LogLevel, Progress, TraceContext};

pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The `_meta` of a stateless request.
pub struct RequestMeta {
    pub capabilities: ClientCapabilities,
    /// Absent if the client wants no log messages.
    pub log: Option<LogLevel>,
}

/// Why `_meta` was rejected.
#[derive(Debug, PartialEq, Eq)]
pub enum MetaError {
    /// A required member is missing or has the wrong type.
    Invalid(String),
    /// A revision that is unknown or not stateless.
    Unsupported(String),
}

/// The revision that the request names, known or not.
pub fn version(params: &Params) -> Option<String> {
    params.meta(VERSION).map(|raw| jsonrpc::text(&raw).unwrap_or_else(|| "?".to_owned()))
}

impl RequestMeta {
    pub fn read(params: &Params) -> Result<RequestMeta, MetaError> {
        let missing = |name: &str| MetaError::Invalid(format!("'params._meta' must have '{name}'"));
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

/// The progress that a client asked for with a token, which MCP requires to increase.
pub struct ProgressReports {
    /// Raw JSON: a string or a number.
    token: Option<Bytes>,
    last: f64,
}

impl ProgressReports {
    pub fn read(params: &Params) -> ProgressReports {
        let token = params.meta("progressToken");
        let token = token.filter(|raw| matches!(raw.first(), Some(b'"' | b'-' | b'0'..=b'9')));
        ProgressReports { token, last: f64::NEG_INFINITY }
    }

    /// The notification to send, if any.
    pub fn next(&mut self, progress: &Progress, revision: Revision) -> Option<Vec<u8>> {
        let token = self.token.as_ref().filter(|_| progress.done > self.last)?;
        self.last = progress.done;
        Some(notifications::progress(token, progress, revision))
    }
}

/// An invalid traceparent is ignored, as the W3C specification requires.
pub fn trace(params: &Params) -> Option<TraceContext> {
    params.meta("traceparent").and_then(|raw| TraceContext::parse(&jsonrpc::text(&raw)?))
}

/// The capabilities that a client declares; only those that the server uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Forms for the user; `elicitation: {}` declares these.
    pub form: bool,
    /// Pages for the user to visit.
    pub url: bool,
    pub sampling: bool,
    pub roots: bool,
    /// The tasks extension.
    pub tasks: bool,
}

pub const TASKS: &str = "io.modelcontextprotocol/tasks";

impl ClientCapabilities {
    /// Reads the raw object; unknown or invalid members count as absent.
    pub fn read(raw: &[u8]) -> ClientCapabilities {
        // The common case, on every request of a stateless client.
        if raw == b"{}" {
            return ClientCapabilities::default();
        }
        let mut found = ClientCapabilities::default();
        for (name, raw) in objects(raw) {
            match name.as_str() {
                "sampling" => found.sampling = true,
                "roots" => found.roots = true,
                "elicitation" => {
                    let modes = objects(raw);
                    let has = |mode: &str| modes.iter().any(|(name, _)| name == mode);
                    found.url = has("url");
                    found.form = has("form") || !found.url;
                }
                "extensions" => found.tasks = objects(raw).iter().any(|(name, _)| name == TASKS),
                _ => {}
            }
        }
        found
    }
}

/// The members that are objects.
fn objects(raw: &[u8]) -> Vec<(String, &[u8])> {
    let members = json::members(raw).ok().flatten().unwrap_or_default();
    let members = members.into_iter().map(|(name, range)| (name.into_owned(), &raw[range]));
    members.filter(|(_, raw)| raw.first() == Some(&b'{')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_in_every_form() {
        let read = |text: &str| ClientCapabilities::read(text.as_bytes());
        let none = ClientCapabilities::default();
        for (text, expected) in [
            ("{}", none),
            ("7", none),
            (r#"{"sampling":true}"#, none),
            (r#"{"sampling":{"tools":{}}}"#, ClientCapabilities { sampling: true, ..none }),
            (r#"{"elicitation":{}}"#, ClientCapabilities { form: true, ..none }),
            (r#"{"elicitation":{"url":{}}}"#, ClientCapabilities { url: true, ..none }),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, ClientCapabilities { url: true, form: true, ..none }),
            (r#"{"roots":{"listChanged":true}}"#, ClientCapabilities { roots: true, ..none }),
            (
                r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
                ClientCapabilities { tasks: true, ..none },
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
