//! What happens to a call: the pipeline and its gates, the registry of tools, the audit log.
//!
//! The engine opens no listening socket and starts no child; edges and runtimes do.

pub mod audit;
pub mod batch;
pub mod behalf;
pub mod blobs;
pub mod cache;
pub mod changes;
pub mod clock;
pub mod controls;
pub mod faults;
mod gates;
pub mod jobs;
pub mod pipeline;
pub mod prompts;
pub mod registry;
pub mod resources;
pub mod stores;
pub mod tasks;

pub use behalf::{Behalf, Found};
pub use blobs::Blobs;
pub use changes::Changes;
pub use controls::Controls;
pub use faults::{Fault, Faults, NoFaults};
pub use gates::Crowd;
pub use pipeline::Engine;
pub use prompts::{NoPrompts, Prompts};
pub use registry::{
    Candidate, Entry, PrepareFuture, Registry, Run, RunFuture, Runner, Severity, Snapshot, SourceProblem,
};
pub use resources::{NoResources, ResourceChange, Resources, Watch};
pub use tasks::{Changed, NoTasks, Task, Tasks};
