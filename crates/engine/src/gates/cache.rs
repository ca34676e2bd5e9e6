//! Gate: a deterministic tool's result is reused, and equal calls in flight run once.

use crate::cache::{Cache, Key};
use crate::gates::{run, validate};
use crate::registry::Entry;
use futures_util::FutureExt;
use std::sync::Arc;
use std::time::Instant;
use toolyard_protocol::{Call, Error, ErrorKind, Outcome};

/// The kept result of an equal call, or a run of our own (alone, or shared with equal calls that come now).
pub async fn reuse_or_run(
    cache: &Arc<Cache>,
    call: &Call,
    entry: &Arc<Entry>,
    started: Instant,
) -> Result<Outcome, Error> {
    let deadline = run::deadline(call, entry, started);
    let Some(maker) = &entry.cache_key else {
        let outcome = run::run(call, entry, deadline).await?;
        return validate::output(entry, outcome);
    };
    let key = Key::new(&entry.spec, &call.identity, &maker.key(&call.arguments)?);
    if let Some(mut outcome) = cache.get(&key) {
        outcome.meta.cached = true;
        return Ok(outcome);
    }
    // The shared run obeys the tool's limit only: each waiter leaves at its own deadline, and the run ends when
    // the last one has left.
    // The run holds its entry, so that no other can have the same address while it goes on.
    let version = Arc::as_ptr(entry) as usize;
    let flight = cache.flight(key, version, || {
        shared_run(cache.clone(), key, call.clone(), entry.clone(), started).boxed()
    });
    match tokio::time::timeout_at(deadline.into(), flight).await {
        Ok(result) => result,
        Err(_) => {
            Err(Error::new(ErrorKind::Timeout, format!("'{}' did not finish in time", entry.spec.exposed)))
        }
    }
}

async fn shared_run(
    cache: Arc<Cache>,
    key: Key,
    mut call: Call,
    entry: Arc<Entry>,
    started: Instant,
) -> Result<Outcome, Error> {
    call.deadline = None;
    let deadline = run::deadline(&call, &entry, started);
    let files = entry.runner.files();
    let outcome = run::run(&call, &entry, deadline).await?;
    let outcome = validate::output(&entry, outcome)?;
    // Errors are never kept, nor what other files than those of the digest have computed.
    if outcome.error().is_none() && files.is_some() && files == entry.runner.files() {
        cache.put(&key, &outcome);
    }
    Ok(outcome)
}
