//! What happens to a call: the one list of gates, the registry of tools, jobs, batches; traits for stores.
//!
//! The engine opens no socket, starts no child, and knows neither SQL nor JSON: edges, runtimes and the store do.

pub mod audit;
pub mod batch;
pub mod cache;
pub mod changes;
pub mod clock;
mod gates;
pub mod jobs;
pub mod limiter;
pub mod pipeline;
pub mod prompts;
pub mod registry;
pub mod request_context;
pub mod resources;
pub mod stores;
pub mod tasks;

pub use audit::{AuditLog, OpenRecord};
pub use changes::Changes;
pub use gates::CallLimit;
pub use limiter::ToolLimiter;
pub use pipeline::Engine;
pub use prompts::{NoPrompts, Prompts};
pub use registry::{
    Candidate, Entry, PrepareFuture, Registry, Run, RunFuture, Runner, Severity, Snapshot, SourceProblem,
};
pub use request_context::{RequestContext, RequestFuture};
pub use resources::{NoResources, ResourceChange, Resources, WatchGuard};
pub use tasks::{NoTasks, Task, TaskChanges, Tasks};
