//! Stores in one SQLite file that several processes may share.

mod annotations;
mod archive;
mod artifacts;
mod cache;
mod columns;
mod committer;
mod database;
mod error;
mod events;
pub mod faults;
mod file;
mod graph;
mod jobs;
mod limits;
mod migrate;
mod newest_event;
mod reader;
#[cfg(test)]
pub mod tests;
mod values;
mod walk;
mod writer;

pub use annotations::Annotations;
pub use archive::Archive;
pub use artifacts::Artifacts;
pub use cache::{CacheTable, open_cache};
pub use database::{Database, compact};
pub use events::{EventLog, Events, RING};
pub use faults::{Fault, Faults, NoFaults, POINTS};
pub use graph::Graph;
pub use jobs::Jobs;
pub use limits::Limits;
#[cfg(test)]
pub use limits::buckets;
