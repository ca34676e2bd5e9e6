//! What outlives a process, behind traits: jobs, events, kept results, limits, artifacts, annotations, graph, archive.
//!
//! Every implementation passes one suite. The one in memory is the model the others are compared with.

mod artifacts;
mod bounds;
mod bucket;
mod error;
mod events;
mod graph;
mod jobs;
mod kept;
pub mod memory;
mod notice;
pub mod sqlite;
#[cfg(test)]
mod suite;
mod words;

pub use artifacts::{
    Annotation, AnnotationStore, Artifact, ArtifactFilter, ArtifactStore, Lineage, NewAnnotation, NewArtifact,
};
pub use error::StoreError;
pub use events::{EventPage, EventQuery, EventStore, NewEvent};
pub use graph::{
    Connection, Direction, Found, GraphQuery, GraphStore, Hint, Identity, IdentityFilter, Tag, Walk,
};
pub use jobs::{Change, Created, Ending, JobFilter, JobStore, Lease, NewJob, Recovered};
pub use kept::{Archive, ArchiveEntry, ArchiveQuery, CacheStore, KeptRow, LimitStore};

use std::future::Future;
use std::pin::Pin;

/// What a store's method gives. Dropping it does not take back what was asked for.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// When a change counts as made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On disk: survives a power cut.
    Synced,
    /// Handed to the operating system: survives kill -9.
    Written,
}
