//! The vocabulary every part of Toolyard shares: what a call is, how it ends, how it fails.
//!
//! This crate does no I/O, knows no async runtime and parses no bytes; `wire` turns bytes into these types.

pub mod call;
pub mod caller;
pub mod check;
pub mod digest;
pub mod error;
pub mod error_table;
pub mod event;
pub mod id;
pub mod job;
pub mod name;
pub mod outcome;
pub mod payload;
pub mod redact;
pub mod secret;
pub mod spec;
pub mod text;
pub mod time;
pub mod timing;
pub mod tool;

pub use call::{Call, Edge, Identity, TraceContext};
pub use caller::{Answer, Ask, AskFuture, Caller, LogLevel, LogLine, Nobody, Progress, Question};
pub use check::{CacheKey, Check, JsonView, Violation};
pub use digest::Digest;
pub use error::{Details, Error, RpcError};
pub use error_table::ErrorKind;
pub use event::Event;
pub use id::Id;
pub use job::{Job, JobState};
pub use name::{ExposedName, ToolName};
pub use outcome::{Meta, Outcome, Status};
pub use payload::{Format, Payload};
pub use redact::{NothingSecret, Redactor};
pub use secret::SecretName;
pub use spec::{
    About, Annotations, Conduct, Example, Expect, Limits, Rate, Retry, Sandbox, ToolSpec, Version,
};
pub use time::Timestamp;
pub use timing::Timing;
pub use tool::{Context, Request, Tool};
