//! Kept results in one map; gone with the process.

use crate::stores::{CacheStore, KeptRow};
use std::collections::BTreeMap;
use toolyard_protocol::Timestamp;

#[derive(Default)]
pub struct Kept(BTreeMap<[u8; 32], KeptRow>);

impl CacheStore for Kept {
    fn get(&mut self, key: &[u8; 32]) -> Option<KeptRow> {
        self.0.get(key).cloned()
    }

    fn put(&mut self, key: &[u8; 32], row: KeptRow, max_bytes: u64, oldest: Timestamp) {
        if row.size() > max_bytes / 4 {
            return;
        }
        self.0.insert(*key, row);
        if self.bytes() > max_bytes {
            self.0.retain(|_, row| row.made >= oldest);
        }
        while self.bytes() > max_bytes {
            let Some(key) = self.0.iter().min_by_key(|(_, row)| row.made).map(|(key, _)| *key) else {
                return;
            };
            self.0.remove(&key);
        }
    }
}

impl Kept {
    fn bytes(&self) -> u64 {
        self.0.values().map(KeptRow::size).sum()
    }
}
