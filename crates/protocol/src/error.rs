//! A failure as one value: what, where, what to do, and who to ask the log about.

use crate::{ErrorKind, Id, Payload, Violation};
use std::fmt;
use std::time::Duration;

/// Why a call failed. The message says what was wrong and where; the hint says what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
    pub hint: Option<String>,
    pub correlation_id: Option<Id>,
    // Boxed: most errors carry few details and results are returned by value on the hot path.
    pub details: Box<Details>,
}

/// Facts that some errors carry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Each place where a value breaks its schema.
    pub violations: Vec<Violation>,
    /// The last lines the child wrote to stderr, control characters made visible.
    pub stderr: Option<String>,
    /// How the child ended: `exit status 1`, `killed by SIGKILL`.
    pub exit: Option<String>,
    /// The code the tool itself reported.
    pub tool_code: Option<String>,
    /// What else the tool reported about its error.
    pub tool_details: Option<Payload>,
    /// When a refused call may be tried again.
    pub retry_after: Option<Duration>,
    /// The JSON-RPC error with which the tool wants the call to end, where the caller speaks JSON-RPC.
    pub rpc: Option<RpcError>,
}

/// An error in JSON-RPC's own terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Payload>,
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), hint: None, correlation_id: None, details: Box::default() }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Details)) -> Error {
        change(&mut self.details);
        self
    }

    /// The code shown to people and clients of the toolpack format.
    pub fn code(&self) -> &str {
        self.kind.row().code
    }
}

impl Details {
    pub fn is_empty(&self) -> bool {
        *self == Details::default()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
