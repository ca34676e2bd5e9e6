//! Smaller stores: results kept for equal calls, counters of rate limits, the archive of what left a window.

use super::Reply;
use std::time::Duration;
use toolyard_protocol::{Id, Payload, Rate, Timestamp};

/// Results of deterministic tools. Losing a row costs time, never truth; a damaged row is dropped, not served.
pub trait CacheStore: Send {
    fn get(&mut self, key: &[u8; 32]) -> Option<KeptRow>;

    /// Rows made before `oldest` may go, then the oldest, so that at most `max_bytes` stay. A row over a quarter of
    /// that is not kept: it would push out all the others.
    fn put(&mut self, key: &[u8; 32], row: KeptRow, max_bytes: u64, oldest: Timestamp);
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeptRow {
    pub made: Timestamp,
    pub data: Option<Payload>,
    pub content: Option<Payload>,
}

impl KeptRow {
    /// Bytes that count against the bound: what is kept, and the row's own cost.
    pub fn size(&self) -> u64 {
        let len = |part: &Option<Payload>| part.as_ref().map_or(0, Payload::len) as u64;
        128 + len(&self.data) + len(&self.content)
    }
}

/// Rate limits that several processes share.
pub trait LimitStore: Send + Sync {
    /// Takes one token of the bucket `key`; `Some` is how long to wait when there is none. A bucket is full at first
    /// and fills evenly. A clock that went backwards neither fills nor empties it: up to a second back counts as no
    /// time at all (two processes that read the clock in turn), more as a clock that was set and goes on from there.
    fn take(&self, key: String, rate: Rate, now: Timestamp) -> Reply<'_, Option<Duration>>;
}

/// Append-only: messages that left a context's window and whatever else must not be lost.
pub trait Archive: Send + Sync {
    /// On disk when the reply comes. The first entry of an id stays, whatever comes after.
    fn append(&self, entry: ArchiveEntry) -> Reply<'_, ()>;

    /// Oldest first, which is by id. A page ends at the limit or before 16 MiB of bodies and texts, so go on from its
    /// last id until none comes.
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
