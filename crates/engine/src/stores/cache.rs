//! Cached results of deterministic tools.

use toolyard_protocol::{Payload, Timestamp};

/// Rows may be lost at any time; a damaged row is dropped, not returned.
pub trait CacheStore: Send {
    fn get(&mut self, key: &[u8; 32]) -> Option<CacheRow>;

    /// Rows created before `oldest` may be evicted, then the oldest, so that at most `max_bytes` remain. A
    /// row larger than a quarter of that is not stored: it would evict all others.
    fn put(&mut self, key: &[u8; 32], row: CacheRow, max_bytes: u64, oldest: Timestamp);
}

#[derive(Clone, Debug, PartialEq)]
pub struct CacheRow {
    pub created: Timestamp,
    pub data: Option<Payload>,
    pub content: Option<Payload>,
}

impl CacheRow {
    /// Bytes that count against the limit: the payloads and a fixed cost per row.
    pub fn size(&self) -> u64 {
        let len = |part: &Option<Payload>| part.as_ref().map_or(0, Payload::len) as u64;
        128 + len(&self.data) + len(&self.content)
    }
}
