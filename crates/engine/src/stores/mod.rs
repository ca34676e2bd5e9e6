//! Traits for persistent state: jobs, events, cached results, limits, artifacts, annotations, graph, archive.
//!
//! The implementations, and the test suite that all of them pass, are in the store crate.

mod archive;
mod artifacts;
mod cache;
mod error;
mod events;
mod graph;
mod jobs;
mod limits;

pub use archive::{ArchiveEntry, ArchiveQuery, ArchiveStore};
pub use artifacts::{
    Annotation, AnnotationStore, Artifact, ArtifactFilter, ArtifactStore, Lineage, NewAnnotation, NewArtifact,
};
pub use cache::{CacheRow, CacheStore};
pub use error::StoreError;
pub use events::{EventPage, EventQuery, EventStore, NewEvent};
pub use graph::{
    Direction, GraphLink, GraphNode, GraphNodeFilter, GraphQuery, GraphStore, Hint, ReachedNode, Tag, Walk,
};
pub use jobs::{Created, JobEnd, JobFilter, JobStore, Lease, NewJob, Recovered, UpdateResult};
pub use limits::LimitStore;

use std::future::Future;
use std::pin::Pin;

/// The result of a store method. Dropping it does not undo the request.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// When a change counts as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On disk: survives a power cut.
    Synced,
    /// Handed to the operating system: survives kill -9.
    Written,
}
