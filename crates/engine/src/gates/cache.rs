//! Gate: a deterministic tool's result is reused, and equal calls in flight run once.

use crate::cache::{Cache, Key};
use crate::gates::run::{self, ToolPermit};
use crate::gates::{RedactingCaller, redact, validate};
use crate::registry::Entry;
use futures_util::FutureExt;
use std::sync::Arc;
use std::time::Instant;
use toolyard_protocol::{Call, Caller, Error, ErrorKind, NoopCaller, Outcome, Redactor};

/// The cached result of an equal call, or a run of our own (alone, or shared with equal calls that come now).
pub async fn reuse_or_run(
    (cache, redactor): (&Arc<Cache>, &Arc<dyn Redactor>),
    call: &Call,
    caller: &dyn Caller,
    entry: &Arc<Entry>,
    started: Instant,
    permit: ToolPermit,
) -> Result<Outcome, Error> {
    let deadline = run::deadline(call, entry, started);
    let Some(cache_key) = &entry.cache_key else {
        return run_checked(redactor.as_ref(), call, caller, entry, deadline, permit).await;
    };
    let key = cache_key.key(&call.arguments).map_err(|error| redact::error(redactor.as_ref(), error))?;
    let key = Key::new(&entry.spec, entry.runner.secrets_fingerprint(), &call.identity, &key);
    if let Some(mut outcome) = cache.get(&key) {
        outcome.meta.cached = true;
        outcome.meta.tool_meta = None;
        // It may be older than a secret that it holds.
        return Ok(redact::outcome(redactor.as_ref(), outcome));
    }
    // The shared run obeys the tool's limit only: each waiter leaves at its own deadline, and the run ends when
    // the last one has left.
    // The run holds its entry, so that no other can have the same address while it goes on.
    let version = Arc::as_ptr(entry) as usize;
    let flight = cache.single_flight(key, version, || {
        let part = (cache.clone(), redactor.clone());
        shared_run(part, key, call.clone(), entry.clone(), started, permit).boxed()
    });
    match tokio::time::timeout_at(deadline.into(), flight).await {
        Ok(result) => result,
        Err(_) => {
            Err(Error::new(ErrorKind::Timeout, format!("'{}' did not finish in time", entry.spec.exposed)))
        }
    }
}

/// What the tool gave, without secrets, and still what its schema promises.
async fn run_checked(
    redactor: &dyn Redactor,
    call: &Call,
    caller: &dyn Caller,
    entry: &Entry,
    deadline: Instant,
    permit: ToolPermit,
) -> Result<Outcome, Error> {
    let caller = RedactingCaller { caller, redactor };
    let ran = run::run(call, &caller, entry, deadline, permit).await;
    validate::output(entry, redact::result(redactor, ran)?)
}

async fn shared_run(
    (cache, redactor): (Arc<Cache>, Arc<dyn Redactor>),
    key: Key,
    mut call: Call,
    entry: Arc<Entry>,
    started: Instant,
    permit: ToolPermit,
) -> Result<Outcome, Error> {
    call.deadline = None;
    let deadline = run::deadline(&call, &entry, started);
    let input_version =
        || entry.runner.files_version().map(|files| (files, entry.runner.secrets_fingerprint()));
    let before = input_version();
    // What several callers share is no conversation with one of them.
    let outcome = run_checked(redactor.as_ref(), &call, &NoopCaller, &entry, deadline, permit).await?;
    // Errors are never kept, nor what other files than those of the digest, or other secrets, have computed.
    if outcome.error().is_none() && before.is_some() && before == input_version() {
        cache.put(&key, &outcome);
    }
    Ok(outcome)
}
