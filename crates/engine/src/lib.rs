//! What happens to a call: the pipeline and its gates, the registry of tools, the audit log.
//!
//! The engine opens no listening socket and starts no child; edges and runtimes do.

pub mod audit;
pub mod blobs;
pub mod cache;
pub mod changes;
pub mod clock;
pub mod controls;
pub mod faults;
mod gates;
pub mod pipeline;
pub mod registry;
pub mod stores;

pub use blobs::Blobs;
pub use changes::Changes;
pub use controls::Controls;
pub use faults::{Fault, Faults, NoFaults};
pub use pipeline::Engine;
pub use registry::{
    Candidate, Entry, PrepareFuture, Registry, Run, RunFuture, Runner, Severity, Snapshot, SourceProblem,
};
