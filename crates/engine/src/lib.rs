//! Runs calls: the list of gates, the tool registry, jobs and batches; traits for the stores.
//!
//! The engine opens no sockets, starts no child processes, and knows neither SQL nor JSON.

pub mod batch;
pub mod cache;
pub mod changes;
pub mod clock;
mod execute;
mod gates;
pub mod jobs;
mod lazy;
pub mod prompts;
pub mod registry;
pub mod request_context;
pub mod resources;
pub mod stores;
pub mod tasks;

pub use changes::Changes;
pub use execute::Engine;
pub use gates::audit::{AuditFuture, AuditLog, OpenRecord};
pub use gates::concurrency::{CallLimit, ToolLimiter};
pub use lazy::Lazy;
pub use prompts::{NoPrompts, Prompts};
pub use registry::{
    Candidate, Entry, PrepareFuture, Registry, Run, RunFuture, Runner, Severity, Snapshot, SourceProblem,
};
pub use request_context::{RequestContext, RequestFuture};
pub use resources::{NoResources, ResourceChange, Resources, WatchGuard};
pub use tasks::{NoTasks, Task, TaskChanges, Tasks};
