//! The other end of a call while it runs: who hears of progress, and who can be asked.

use crate::{Error, ErrorKind, Payload};
use std::future::Future;
use std::pin::Pin;

pub type InputFuture<'a> = Pin<Box<dyn Future<Output = Result<InputResponse, Error>> + Send + 'a>>;

/// Each edge implements this for its clients. None of the methods may block.
pub trait Caller: Send + Sync {
    fn progress(&self, progress: Progress);

    fn log(&self, line: LogLine);

    /// Asks the person or the model at the other end and waits for the answer.
    fn request_input(&self, question: InputRequest) -> InputFuture<'_>;

    /// The tool allows the stream to be closed now; the client comes back for the answer.
    fn close_stream(&self, _retry_ms: Option<u64>) {}

    /// The tool goes on by itself: a caller that can follow a job need not stay.
    fn detach(&self) {}
}

/// How far the work is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// 0 to 100, or as far as `total`.
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// Something a tool says while it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub level: LogLevel,
    pub logger: Option<String>,
    /// JSON: a string, or whatever the tool wrote.
    pub data: Payload,
}

/// Syslog's levels, as MCP has them; the order is that of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// What a tool wants to know from its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// The tool's own name for the question; answers are matched by it when a call is repeated.
    pub key: String,
    pub body: InputRequestBody,
}

/// The kinds of question. Payloads are the parameters in MCP's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputRequestBody {
    /// A form for a person: `{message, requestedSchema}`.
    Elicit(Payload),
    /// A page for a person to visit: `{message, url}`.
    ElicitUrl(Payload),
    /// A completion by the client's model.
    Sample(Payload),
    /// The client's workspace folders.
    Roots,
}

/// The client's result for a question, as JSON in MCP's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputResponse(pub Payload);

/// A caller that listens to nothing and can't be asked: plain HTTP, scripts.
pub struct NoopCaller;

impl Caller for NoopCaller {
    fn progress(&self, _: Progress) {}

    fn log(&self, _: LogLine) {}

    fn request_input(&self, _: InputRequest) -> InputFuture<'_> {
        let error =
            Error::new(ErrorKind::Unavailable, "the tool asks a question, and no one is there to answer")
                .hint("call it from a client that can ask its user");
        Box::pin(std::future::ready(Err(error)))
    }
}

impl LogLevel {
    pub const ALL: [LogLevel; 8] = [
        LogLevel::Debug,
        LogLevel::Info,
        LogLevel::Notice,
        LogLevel::Warning,
        LogLevel::Error,
        LogLevel::Critical,
        LogLevel::Alert,
        LogLevel::Emergency,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Notice => "notice",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
            LogLevel::Critical => "critical",
            LogLevel::Alert => "alert",
            LogLevel::Emergency => "emergency",
        }
    }

    pub fn parse(text: &str) -> Option<LogLevel> {
        LogLevel::ALL.into_iter().find(|level| level.as_str() == text)
    }
}
