//! A request to run one tool.

use crate::{Id, Payload};
use std::fmt;
use std::time::Instant;

/// The call that an edge passes to the pipeline.
#[derive(Clone, Debug)]
pub struct Call {
    pub id: Id,
    /// As the caller wrote it: exposed or canonical. The registry resolves it.
    pub tool: String,
    pub arguments: Payload,
    pub identity: Identity,
    pub edge: Edge,
    /// The caller's own limit; the tool's timeout applies as well.
    pub deadline: Option<Instant>,
    pub wait: Wait,
    pub trace: Option<TraceContext>,
    /// Calls by one caller of one tool with the same key run once.
    pub idempotency_key: Option<String>,
}

/// How long the caller waits for a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// As long as the tool's timing declares.
    #[default]
    AsDeclared,
    /// Until the job finishes.
    UntilDone,
    /// Until the tool detaches from its caller.
    UntilDetached,
    /// Not at all: the response is the job's id.
    NoWait,
}

impl Call {
    /// A call by the local caller, without deadline, trace or idempotency key.
    pub fn new(id: Id, tool: impl Into<String>, arguments: Payload, edge: Edge) -> Call {
        Call {
            id,
            tool: tool.into(),
            arguments,
            identity: Identity::local(),
            edge,
            deadline: None,
            wait: Wait::AsDeclared,
            trace: None,
            idempotency_key: None,
        }
    }
}

/// The interface through which a call arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Cli,
    Http,
    /// A job that is restarted after its worker died.
    Job,
    Mcp,
}

impl Edge {
    pub fn as_str(self) -> &'static str {
        match self {
            Edge::Cli => "cli",
            Edge::Http => "http",
            Edge::Job => "job",
            Edge::Mcp => "mcp",
        }
    }
}

/// The caller's name: whose jobs, cached results and idempotency keys a call uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity(Box<str>);

impl Identity {
    /// From a name that a store or an authenticator supplied.
    pub fn new(name: impl Into<Box<str>>) -> Identity {
        Identity(name.into())
    }

    /// The owner of the yard: the command line, stdio, and HTTP clients that sent the yard's token.
    pub fn local() -> Identity {
        Identity("local".into())
    }

    /// An HTTP client without the yard's token: any user or program of this machine.
    pub fn anonymous() -> Identity {
        Identity("anonymous".into())
    }

    pub fn is_owner(&self) -> bool {
        &*self.0 == "local"
    }

    /// The callers whose jobs this one may see: `None` means all of them, for the owner.
    pub fn visible(&self) -> Option<Identity> {
        (!self.is_owner()).then(|| self.clone())
    }

    /// Whether this caller may see what belongs to `other`.
    pub fn may_see(&self, other: &Identity) -> bool {
        self.is_owner() || self == other
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A W3C `traceparent`, checked: `00-<32 hex>-<16 hex>-<2 hex>`, ids not all zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceContext([u8; 55]);

impl TraceContext {
    pub fn parse(text: &str) -> Option<TraceContext> {
        let bytes: [u8; 55] = text.as_bytes().try_into().ok()?;
        let dashes = bytes.iter().enumerate().all(|(i, &b)| match i {
            2 | 35 | 52 => b == b'-',
            _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
        });
        let not_zero = |range: std::ops::Range<usize>| bytes[range].iter().any(|&b| b != b'0');
        let version_known = bytes[..2] == *b"00";
        (dashes && version_known && not_zero(3..35) && not_zero(36..52)).then_some(TraceContext(bytes))
    }

    pub fn as_str(&self) -> &str {
        // Checked to be ASCII when parsed.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceparents_are_checked() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(TraceContext::parse(good).unwrap().as_str(), good);
        for bad in [
            "",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad:?} was accepted");
        }
    }
}
