//! Smaller stores: results kept for equal calls, counters of rate limits, the archive of what left a window.

use super::Reply;
use std::time::Duration;
use toolyard_protocol::{Id, Payload, Rate, Timestamp};

/// Results of deterministic tools. Losing a row costs time, never truth; a damaged row is dropped, not served.
pub trait CacheStore: Send {
    fn get(&mut self, key: &[u8; 32]) -> Option<KeptRow>;

    /// Rows made before `oldest` may go, then the oldest, so that at most `max_bytes` stay.
    fn put(&mut self, key: &[u8; 32], row: KeptRow, max_bytes: u64, oldest: Timestamp);
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeptRow {
    pub made: Timestamp,
    pub data: Option<Payload>,
    pub content: Option<Payload>,
}

/// Rate limits that several processes share.
pub trait LimitStore: Send + Sync {
    /// Takes one token of the bucket `key`; `Some` is how long to wait when there is none. A clock that went
    /// backwards neither fills nor empties a bucket.
    fn take(&self, key: String, rate: Rate, now: Timestamp) -> Reply<'_, Option<Duration>>;
}

/// Append-only: messages that left a context's window and whatever else must not be lost.
pub trait Archive: Send + Sync {
    fn append(&self, entry: ArchiveEntry) -> Reply<'_, ()>;

    /// Oldest first.
    fn read(&self, query: ArchiveQuery) -> Reply<'_, Vec<ArchiveEntry>>;
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
