//! The types every part of Toolyard shares: calls, outcomes, errors, tools, jobs, resources, prompts.
//!
//! This crate does no I/O, knows no async runtime and parses no bytes; `wire` turns bytes into these types.

pub mod base64;
pub mod batch;
mod blob;
pub mod call;
pub mod caller;
pub mod check;
pub mod digest;
pub mod error;
pub mod error_table;
pub mod event;
pub mod hash;
pub mod id;
pub mod job;
pub mod json;
pub mod name;
pub mod outcome;
pub mod payload;
pub mod prompt;
pub mod redact;
pub mod resource;
pub mod secret;
mod serde_impls;
pub mod spec;
pub mod text;
pub mod time;
pub mod timing;
pub mod tool;

pub use blob::Blob;
pub use call::{Call, Edge, Identity, TraceContext, Wait};
pub use caller::{
    Caller, InputFuture, InputRequest, InputRequestBody, InputResponse, LogLevel, LogLine, NoopCaller,
    Progress,
};
pub use check::{CacheKey, Check, JsonView, OutcomeCodec, Violation};
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
pub use prompt::{
    Completion, CompletionRequest, Prompt, PromptArgument, PromptPack, PromptSource, RenderedPrompt,
};
pub use redact::{NoopRedactor, Redactor};
pub use resource::{
    Body, CachePolicy, Extra, Page, ReadResult, Resource, ResourceContents, ResourceTemplate,
};
pub use secret::SecretName;
pub use spec::{
    About, Annotations, Behavior, Example, Expect, FileGrant, GrantOrigin, Guarded, Limits, Permissions,
    Rate, Retry, Sandbox, ToolSpec, Version,
};
pub use time::Timestamp;
pub use timing::Timing;
pub use tool::{Context, Request, Tool};
