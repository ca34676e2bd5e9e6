//! Gate: the result of an equal, earlier call of a deterministic tool is reused.

use super::Ran;
use crate::cache::{Cache, Key};
use crate::registry::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use toolyard_protocol::{Call, Error, Outcome};

/// The result of a cache lookup.
pub enum Lookup {
    /// The tool is not deterministic.
    Uncached,
    Hit(Box<Outcome>),
    Miss(Key),
}

/// A result that may be stored, unless its inputs have changed since the run started.
pub struct ToStore {
    pub key: Key,
    pub inputs: InputVersion,
    /// Shared by the calls that shared the run: only one of them stores the result.
    pub stored: Arc<AtomicBool>,
}

/// The versions of the files and secrets of a run; `None` when the files changed since the tool was loaded.
pub type InputVersion = Option<(u64, Option<[u8; 32]>)>;

pub fn input_version(entry: &Entry) -> InputVersion {
    entry.runner.files_version().map(|files| (files, entry.runner.secrets_fingerprint()))
}

pub fn look_up(cache: &Cache, call: &Call, entry: &Entry) -> Result<Lookup, Error> {
    let Some(cache_key) = &entry.cache_key else { return Ok(Lookup::Uncached) };
    let input = cache_key.key(&call.arguments)?;
    let key = Key::new(&entry.spec, entry.runner.secrets_fingerprint(), &call.identity, &input);
    Ok(match cache.get(&key) {
        Some(mut outcome) => {
            outcome.meta.cached = true;
            outcome.meta.tool_meta = None;
            Lookup::Hit(Box::new(outcome))
        }
        None => Lookup::Miss(key),
    })
}

/// Stores a success, once for all calls that shared the run. Errors are never cached.
pub fn store(cache: &Cache, ran: Ran) -> Outcome {
    if let Some(ToStore { key, inputs, stored }) = &ran.to_store
        && ran.outcome.error().is_none()
        && inputs.is_some()
        && *inputs == input_version(&ran.entry)
        && !stored.swap(true, Ordering::Relaxed)
    {
        cache.put(key, &ran.outcome);
    }
    ran.outcome
}
