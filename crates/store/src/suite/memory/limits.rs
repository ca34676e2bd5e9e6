//! Rate limits in one map by key.

use super::{lock, reply};
use crate::bounds;
use crate::bucket::{EVICT_BATCH, StoredBucket};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use toolyard_engine::stores::{LimitStore, StoreError, StoreFuture};
use toolyard_protocol::{Rate, Timestamp};

#[derive(Default)]
pub struct Limits(Mutex<BTreeMap<String, StoredBucket>>);

#[cfg(test)]
impl Limits {
    pub fn buckets(&self) -> Vec<(String, StoredBucket)> {
        lock(&self.0).iter().map(|(key, bucket)| (key.clone(), *bucket)).collect()
    }
}

impl LimitStore for Limits {
    fn take(&self, key: String, rate: Rate, now: Timestamp) -> StoreFuture<'_, Option<Duration>> {
        reply(take(&mut lock(&self.0), key, rate, now))
    }
}

fn take(
    buckets: &mut BTreeMap<String, StoredBucket>,
    key: String,
    rate: Rate,
    now: Timestamp,
) -> Result<Option<Duration>, StoreError> {
    bounds::label("key", &key)?;
    bounds::rate(rate)?;
    if !buckets.contains_key(&key) {
        evict_full(buckets, now);
    }
    Ok(buckets.entry(key).or_insert(StoredBucket::full_at(now)).take(rate, now))
}

/// Removes a batch of full buckets, which are equivalent to none.
fn evict_full(buckets: &mut BTreeMap<String, StoredBucket>, now: Timestamp) {
    let full =
        |(key, bucket): (&String, &StoredBucket)| bucket.is_full(now).then(|| (bucket.full, key.clone()));
    let mut full: Vec<_> = buckets.iter().filter_map(full).collect();
    full.sort();
    full.iter().take(EVICT_BATCH).for_each(|(_, key)| _ = buckets.remove(key));
}
