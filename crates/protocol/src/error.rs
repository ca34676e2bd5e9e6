//! The error of a call: what is wrong, where, what to do, and the id of the call it belongs to.

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
    /// Every violation of a schema.
    pub violations: Vec<Violation>,
    /// The last lines the child wrote to stderr, control characters made visible.
    pub stderr: Option<String>,
    /// How the child ended: `exit status 1`, `killed by SIGKILL`.
    pub exit: Option<String>,
    /// The code the tool itself reported.
    pub tool_code: Option<String>,
    /// Further details that the tool itself reported.
    pub tool_details: Option<Payload>,
    /// How long to wait before retrying a rejected call.
    pub retry_after: Option<Duration>,
    /// The JSON-RPC error that the tool chose, for callers that speak JSON-RPC.
    pub rpc: Option<RpcError>,
}

/// A JSON-RPC error object; `data` is JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Payload>,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), hint: None, correlation_id: None, details: Box::default() }
    }

    /// The properties of the whole value are the arguments, and are called so.
    pub fn invalid_arguments(of: &str, mut violations: Vec<Violation>) -> Error {
        for violation in violations.iter_mut().filter(|violation| violation.pointer.is_empty()) {
            if let Some((what @ ("missing" | "unknown"), name)) = violation.message.split_once(" property ") {
                violation.message = format!("{what} argument {name}");
            }
        }
        Error::invalid(ErrorKind::InvalidInput, format!("invalid arguments for {of}"), violations)
    }

    /// `what` is invalid: the first violation is in the message, all are in the details.
    pub fn invalid(kind: ErrorKind, what: String, violations: Vec<Violation>) -> Error {
        let first = violations.first().map_or(String::new(), |violation| match violation.pointer.as_str() {
            "" => format!(": {}", violation.message),
            pointer => format!(": at {pointer}: {}", violation.message),
        });
        let more = if violations.len() > 1 {
            format!(" (and {} more)", violations.len() - 1)
        } else {
            String::new()
        };
        Error::new(kind, format!("{what}{first}{more}")).with(|details| details.violations = violations)
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
