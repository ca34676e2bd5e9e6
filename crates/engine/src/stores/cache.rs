//! Cached results of deterministic tools.

use toolyard_protocol::{Payload, Timestamp};

/// Results of deterministic tools. Losing a row costs time, never truth; a damaged row is dropped, not served.
pub trait CacheStore: Send {
    fn get(&mut self, key: &[u8; 32]) -> Option<CacheRow>;

    /// Rows made before `oldest` may go, then the oldest, so that at most `max_bytes` stay. A row over a quarter of
    /// that is not kept: it would push out all the others.
    fn put(&mut self, key: &[u8; 32], row: CacheRow, max_bytes: u64, oldest: Timestamp);
}

#[derive(Clone, Debug, PartialEq)]
pub struct CacheRow {
    pub created: Timestamp,
    pub data: Option<Payload>,
    pub content: Option<Payload>,
}

impl CacheRow {
    /// Bytes that count against the bound: what is kept, and the row's own cost.
    pub fn size(&self) -> u64 {
        let len = |part: &Option<Payload>| part.as_ref().map_or(0, Payload::len) as u64;
        128 + len(&self.data) + len(&self.content)
    }
}
