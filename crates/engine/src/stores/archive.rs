//! The archive of messages evicted from a context window. Reserved for the host; not used yet.

use super::StoreFuture;
use toolyard_protocol::{Id, Payload, Timestamp};

/// Append-only: messages evicted from a context window and other data that must not be lost.
pub trait ArchiveStore: Send + Sync {
    /// On disk when it returns. The first entry with an id stays; later ones are ignored.
    fn append(&self, entry: ArchiveEntry) -> StoreFuture<'_, ()>;

    /// Oldest first, which is by id. A page ends at the limit or before 16 MiB of bodies and texts; read on
    /// after its last id until a page is empty.
    fn read(&self, query: ArchiveQuery) -> StoreFuture<'_, Vec<ArchiveEntry>>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct ArchiveEntry {
    /// Time-ordered; a second entry with the same id is ignored.
    pub id: Id,
    /// The conversation or log it belongs to.
    pub stream: String,
    pub at: Timestamp,
    /// JSON, returned byte for byte.
    pub body: Payload,
    /// The searchable text.
    pub text: String,
}

#[derive(Clone, Debug, Default)]
pub struct ArchiveQuery {
    pub stream: Option<String>,
    /// Matched as in [`AnnotationStore::search`](super::AnnotationStore::search).
    pub words: Option<String>,
    pub after: Option<Id>,
    pub limit: usize,
}
