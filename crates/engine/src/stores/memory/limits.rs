//! Rate limits in one map by key.

use super::{lock, reply};
use crate::stores::bucket::{Bucket, FORGOTTEN_AT_ONCE};
use crate::stores::{LimitStore, Reply, StoreError, bounds};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use toolyard_protocol::{Rate, Timestamp};

#[derive(Default)]
pub struct Limits(Mutex<BTreeMap<String, Bucket>>);

#[cfg(test)]
impl Limits {
    pub fn buckets(&self) -> Vec<(String, Bucket)> {
        lock(&self.0).iter().map(|(key, bucket)| (key.clone(), *bucket)).collect()
    }
}

impl LimitStore for Limits {
    fn take(&self, key: String, rate: Rate, now: Timestamp) -> Reply<'_, Option<Duration>> {
        reply(take(&mut lock(&self.0), key, rate, now))
    }
}

fn take(
    buckets: &mut BTreeMap<String, Bucket>,
    key: String,
    rate: Rate,
    now: Timestamp,
) -> Result<Option<Duration>, StoreError> {
    bounds::label("key", &key)?;
    bounds::rate(rate)?;
    if !buckets.contains_key(&key) {
        forget_full(buckets, now);
    }
    Ok(buckets.entry(key).or_insert(Bucket::full_at(now)).take(rate, now))
}

/// A full bucket is the same as none, so each new one makes room.
fn forget_full(buckets: &mut BTreeMap<String, Bucket>, now: Timestamp) {
    let full = |(key, bucket): (&String, &Bucket)| bucket.is_full(now).then(|| (bucket.full, key.clone()));
    let mut full: Vec<_> = buckets.iter().filter_map(full).collect();
    full.sort();
    full.iter().take(FORGOTTEN_AT_ONCE).for_each(|(_, key)| _ = buckets.remove(key));
}
