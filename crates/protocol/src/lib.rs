//! The vocabulary every part of Toolyard shares: what a call is, how it ends, how it fails.
//!
//! This crate does no I/O, knows no async runtime and parses no bytes; `wire` turns bytes into these types.

pub mod batch;
pub mod blob;
pub mod call;
pub mod caller;
pub mod check;
pub mod digest;
pub mod error;
pub mod error_table;
pub mod event;
mod forms;
pub mod hash;
pub mod id;
pub mod job;
pub mod name;
pub mod outcome;
pub mod payload;
pub mod prompt;
pub mod redact;
pub mod resource;
pub mod secret;
pub mod spec;
pub mod text;
pub mod time;
pub mod timing;
pub mod tool;

pub use blob::Blob;
pub use call::{Call, Edge, Identity, TraceContext, Wait};
pub use caller::{Answer, Ask, AskFuture, Caller, LogLevel, LogLine, Nobody, Progress, Question};
pub use check::{CacheKey, Check, JsonView, OutcomeForm, Violation};
pub use digest::Digest;
pub use error::{Details, Error, RpcError};
pub use error_table::ErrorKind;
pub use event::Event;
pub use hash::Hash;
pub use id::Id;
pub use job::{Job, JobState};
pub use name::{ExposedName, ToolName};
pub use outcome::{Meta, Outcome, Status};
pub use payload::{Format, Payload};
pub use prompt::{Completing, Completion, Filled, Prompt, PromptArgument, PromptPack, PromptText};
pub use redact::{NothingSecret, Redactor};
pub use resource::{Body, Extra, Keep, Page, Part, Reading, Resource, ResourceTemplate};
pub use secret::SecretName;
pub use spec::{
    About, Annotations, Conduct, Example, Expect, Limits, Rate, Retry, Sandbox, ToolSpec, Version,
};
pub use time::Timestamp;
pub use timing::Timing;
pub use tool::{Context, Request, Tool};
