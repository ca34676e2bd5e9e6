//! What happens to a call: the pipeline and its gates, the registry of tools, the audit log.
//!
//! The engine opens no listening socket and starts no child; edges and runtimes do.

pub mod audit;
pub mod cache;
pub mod changes;
pub mod clock;
pub mod controls;
mod gates;
pub mod jobs;
pub mod pipeline;
pub mod registry;
pub mod stores;

pub use changes::Changes;
pub use controls::Controls;
pub use pipeline::Engine;
pub use registry::{
    Candidate, Entry, PrepareFuture, Registry, Run, RunFuture, Runner, Severity, Snapshot, SourceProblem,
};
