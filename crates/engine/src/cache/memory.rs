//! The newest results in memory, so that a hit costs no system call.

use super::Key;
use std::collections::{HashMap, VecDeque};
use toolyard_protocol::{Outcome, Payload};

const MAX_BYTES: usize = 4 << 20;

#[derive(Default)]
pub struct MemoryCache {
    entries: HashMap<Key, (u64, Outcome)>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl MemoryCache {
    /// The creation time and the result.
    pub fn get(&self, key: &Key) -> Option<(u64, Outcome)> {
        self.entries.get(key).cloned()
    }

    pub fn put(&mut self, key: Key, created: u64, outcome: &Outcome) {
        let size = size(outcome);
        if size > MAX_BYTES / 8 {
            return;
        }
        match self.entries.insert(key, (created, outcome.clone())) {
            Some((_, old)) => self.bytes -= self::size(&old),
            None => self.order.push_back(key),
        }
        self.bytes += size;
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            if let Some((_, old)) = self.entries.remove(&oldest) {
                self.bytes -= self::size(&old);
            }
        }
    }
}

/// Includes a fixed cost per entry: a million empty results are not free.
fn size(outcome: &Outcome) -> usize {
    256 + outcome.data().map_or(0, Payload::len) + outcome.content().map_or(0, Payload::len)
}
