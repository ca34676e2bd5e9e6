//! The result cache: bounded in bytes and age, on disk and in memory; equal concurrent runs are shared.

mod memory;

use crate::clock::Clock;
pub use crate::gates::cache::InputVersion;
use crate::stores::{CacheRow, CacheStore};
use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use memory::MemoryCache;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolyard_protocol::{Error, Identity, Outcome, Timestamp, ToolSpec};

/// Calls with the same key may share a result: a hash of the tool's name, digest and secrets, the caller's
/// identity and the input.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key([u8; 32]);

impl Key {
    pub fn new(spec: &ToolSpec, secrets: Option<[u8; 32]>, identity: &Identity, input: &[u8]) -> Key {
        let mut hasher = blake3::Hasher::new();
        let secrets = secrets.as_ref().map_or(&[][..], |hash| hash);
        let (name, identity) = (spec.name.as_str().as_bytes(), identity.as_str().as_bytes());
        for part in [name, &spec.digest.0, secrets, identity, input] {
            // The length prefix makes the concatenation unambiguous.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Key(*hasher.finalize().as_bytes())
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes on disk.
    pub max_bytes: u64,
    pub ttl: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { max_bytes: 256 << 20, ttl: Duration::from_secs(24 * 60 * 60) }
    }
}

type Running = BoxFuture<'static, SharedRun>;

/// The result of a run that several calls share.
#[derive(Clone)]
pub struct SharedRun {
    pub result: Result<Outcome, Error>,
    pub inputs: InputVersion,
    /// Set by the first call that stores the result.
    pub stored: Arc<AtomicBool>,
}

/// The cache of one process; several processes may share the store behind it.
pub struct Cache {
    max_bytes: AtomicU64,
    ttl_ms: AtomicU64,
    clock: Arc<dyn Clock>,
    memory: Mutex<MemoryCache>,
    store: Mutex<Box<dyn CacheStore>>,
    in_flight: Mutex<HashMap<(Key, usize), WeakShared<Running>>>,
}

impl Cache {
    pub fn new(store: Box<dyn CacheStore>, options: Options, clock: Arc<dyn Clock>) -> Arc<Cache> {
        let (max_bytes, ttl_ms) = (AtomicU64::new(0), AtomicU64::new(0));
        let cache = Cache {
            max_bytes,
            ttl_ms,
            clock,
            memory: Mutex::default(),
            store: Mutex::new(store),
            in_flight: Mutex::default(),
        };
        cache.set_options(options);
        Arc::new(cache)
    }

    /// Holds for results stored earlier too.
    pub fn set_options(&self, options: Options) {
        self.max_bytes.store(options.max_bytes, Ordering::Relaxed);
        self.ttl_ms.store(options.ttl.as_millis() as u64, Ordering::Relaxed);
    }

    pub fn get(&self, key: &Key) -> Option<Outcome> {
        let now = self.clock.now().unix_ms();
        let ttl = self.ttl_ms.load(Ordering::Relaxed);
        let fresh = |created: u64| now.saturating_sub(created) < ttl && created <= now;
        if let Some((created, outcome)) = lock(&self.memory).get(key) {
            return fresh(created).then_some(outcome);
        }
        let CacheRow { created, data, content } = lock(&self.store).get(&key.0)?;
        let created = created.unix_ms();
        if !fresh(created) {
            return None;
        }
        let outcome = Outcome::success(data);
        let outcome = match content {
            Some(content) => outcome.with_content(content),
            None => outcome,
        };
        lock(&self.memory).put(*key, created, &outcome);
        Some(outcome)
    }

    /// Stores a success. With a full disk or a locked file, nothing is stored.
    pub fn put(&self, key: &Key, outcome: &Outcome) {
        let now = self.clock.now().unix_ms();
        let oldest = now.saturating_sub(self.ttl_ms.load(Ordering::Relaxed));
        lock(&self.memory).put(*key, now, outcome);
        let (created, oldest) = (Timestamp::from_unix_ms(now), Timestamp::from_unix_ms(oldest));
        let row = CacheRow { created, data: outcome.data().cloned(), content: outcome.content().cloned() };
        lock(&self.store).put(&key.0, row, self.max_bytes.load(Ordering::Relaxed), oldest);
    }

    /// Joins the running call with this key, or starts one. It runs while any caller waits for it.
    ///
    /// `version` distinguishes loads of a tool with the same digest: a run that started before its files were
    /// edited and restored must not answer a later call.
    pub fn single_flight(
        &self,
        key: Key,
        version: usize,
        start: impl FnOnce() -> Running,
    ) -> Shared<Running> {
        let key = (key, version);
        let mut in_flight = lock(&self.in_flight);
        if let Some(flight) = in_flight.get(&key).and_then(WeakShared::upgrade)
            // A finished run is not joined: its result is in the cache, or was not cacheable.
            && flight.peek().is_none()
        {
            return flight;
        }
        if in_flight.len() >= 64 {
            in_flight.retain(|_, flight| flight.upgrade().is_some_and(|flight| flight.peek().is_none()));
        }
        let flight = start().shared();
        if let Some(weak) = flight.downgrade() {
            in_flight.insert(key, weak);
        }
        flight
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
