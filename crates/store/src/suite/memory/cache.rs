//! Cached results in one map; lost with the process.

use std::collections::BTreeMap;
use toolyard_engine::stores::{CacheRow, CacheStore};
use toolyard_protocol::Timestamp;

#[derive(Default)]
pub struct Cache(BTreeMap<[u8; 32], CacheRow>);

impl CacheStore for Cache {
    fn get(&mut self, key: &[u8; 32]) -> Option<CacheRow> {
        self.0.get(key).cloned()
    }

    fn put(&mut self, key: &[u8; 32], row: CacheRow, max_bytes: u64, oldest: Timestamp) {
        if row.size() > max_bytes / 4 {
            return;
        }
        self.0.insert(*key, row);
        if self.bytes() > max_bytes {
            self.0.retain(|_, row| row.created >= oldest);
        }
        while self.bytes() > max_bytes {
            let Some(key) = self.0.iter().min_by_key(|(_, row)| row.created).map(|(key, _)| *key) else {
                return;
            };
            self.0.remove(&key);
        }
    }
}

impl Cache {
    fn bytes(&self) -> u64 {
        self.0.values().map(CacheRow::size).sum()
    }
}
