//! The caller of a running tool: receives progress and log lines, and answers input requests.

use crate::{Error, ErrorKind, Payload};
use std::future::Future;
use std::pin::Pin;

pub type InputFuture<'a> = Pin<Box<dyn Future<Output = Result<InputResponse, Error>> + Send + 'a>>;

/// Each edge implements this for its clients. None of the methods may block.
pub trait Caller: Send + Sync {
    fn progress(&self, progress: Progress);

    fn log(&self, line: LogLine);

    /// Sends a question to the client's user or model and waits for the response.
    fn request_input(&self, question: InputRequest) -> InputFuture<'_>;

    /// Allows the edge to close the response stream; the client reconnects for the result.
    fn close_stream(&self, _retry_ms: Option<u64>) {}

    /// The tool's work begins now, for example its process is started. On an error it must not begin.
    fn begin_work(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The tool needs its caller no longer: a caller that can poll a job may stop waiting.
    fn detach(&self) {}
}

/// How much of the work is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// 0 to `total`, or any amount that grows.
    pub done: f64,
    /// Absent when it is not known; 100 for a percentage.
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// A log message of a running tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub level: LogLevel,
    pub logger: Option<String>,
    /// JSON: a string, or any value the tool wrote.
    pub data: Payload,
}

/// The syslog levels that MCP uses, ordered by severity.
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

/// A tool's question to its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// The tool's own name for the question; responses are matched by it when a call is repeated.
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

/// The client's response to a question, as JSON in MCP's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputResponse(pub Payload);

/// A caller that ignores notifications and cannot answer questions: plain HTTP, scripts.
pub struct NoopCaller;

impl Caller for NoopCaller {
    fn progress(&self, _: Progress) {}

    fn log(&self, _: LogLine) {}

    fn request_input(&self, _: InputRequest) -> InputFuture<'_> {
        let error =
            Error::new(ErrorKind::Unavailable, "the tool asks a question that this caller cannot answer")
                .hint("call it from a client that supports elicitation");
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
