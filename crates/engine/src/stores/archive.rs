//! The archive of messages that left a context's window. The host will use it; nothing does yet.

use super::StoreFuture;
use toolyard_protocol::{Id, Payload, Timestamp};

/// Append-only: messages that left a context's window and whatever else must not be lost.
pub trait ArchiveStore: Send + Sync {
    /// On disk when the reply comes. The first entry of an id stays, whatever comes after.
    fn append(&self, entry: ArchiveEntry) -> StoreFuture<'_, ()>;

    /// Oldest first, which is by id. A page ends at the limit or before 16 MiB of bodies and texts, so go on from its
    /// last id until none comes.
    fn read(&self, query: ArchiveQuery) -> StoreFuture<'_, Vec<ArchiveEntry>>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct ArchiveEntry {
    /// Time-ordered; the same id again is no second entry.
    pub id: Id,
    /// The conversation or log it belongs to.
    pub stream: String,
    pub at: Timestamp,
    /// JSON, given back byte for byte.
    pub body: Payload,
    /// What can be searched.
    pub text: String,
}

#[derive(Clone, Debug, Default)]
pub struct ArchiveQuery {
    pub stream: Option<String>,
    /// As for annotations.
    pub words: Option<String>,
    pub after: Option<Id>,
    pub limit: usize,
}
