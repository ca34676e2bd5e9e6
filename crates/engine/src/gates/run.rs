//! Gate: the tool runs, within its deadline, its concurrency and its retries. Equal calls of a deterministic tool share
//! one run.

use super::Ran;
use super::cache::{Lookup, ToStore, input_version};
use super::concurrency::ToolPermit;
use crate::cache::{Cache, SharedRun};
use crate::registry::{Entry, Run};
use futures_util::FutureExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_protocol::{Call, Caller, Error, ErrorKind, NoopCaller, Outcome};

/// Runners keep the deadline themselves, because they know how to stop their work and what to report.
/// This long after it, a run that has not ended is dropped, which stops it too.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the tool, unless the cache has the result already.
pub async fn run(
    cache: &Cache,
    lookup: Lookup,
    call: &Call,
    caller: &dyn Caller,
    entry: Arc<Entry>,
    (started, permit): (Instant, ToolPermit),
) -> Result<Ran, Error> {
    let deadline = deadline(call, &entry, started);
    let key = match lookup {
        Lookup::Hit(outcome) => return Ok(Ran { entry, outcome: *outcome, to_store: None }),
        Lookup::Miss(key) => key,
        Lookup::Uncached => {
            let outcome = run_with_retries(call, caller, &entry, deadline, permit).await?;
            return Ok(Ran { entry, outcome, to_store: None });
        }
    };
    // The shared run obeys the tool's limit only: each caller leaves at its own deadline, and the run ends when the
    // last one has left. It holds its entry, so that no other version can have the same address meanwhile.
    let version = Arc::as_ptr(&entry) as usize;
    let shared = cache
        .single_flight(key, version, || run_for_all(call.clone(), entry.clone(), started, permit).boxed());
    match tokio::time::timeout_at(deadline.into(), shared).await {
        Ok(SharedRun { result, inputs, stored }) => {
            Ok(Ran { entry, outcome: result?, to_store: Some(ToStore { key, inputs, stored }) })
        }
        Err(_) => {
            Err(Error::new(ErrorKind::Timeout, format!("'{}' did not finish in time", entry.spec.exposed)))
        }
    }
}

/// A run that several callers share is no dialogue with one of them, and keeps no caller's deadline.
async fn run_for_all(mut call: Call, entry: Arc<Entry>, started: Instant, permit: ToolPermit) -> SharedRun {
    call.deadline = None;
    let inputs = input_version(&entry);
    let deadline = deadline(&call, &entry, started);
    let result = run_with_retries(&call, &NoopCaller, &entry, deadline, permit).await;
    SharedRun { result, inputs, stored: Arc::default() }
}

async fn run_with_retries(
    call: &Call,
    caller: &dyn Caller,
    entry: &Entry,
    deadline: Instant,
    permit: ToolPermit,
) -> Result<Outcome, Error> {
    let _permit = match permit {
        ToolPermit::ToAcquire => entry.limiter.acquire_until(deadline).await?,
        ToolPermit::Acquired(permit) => permit,
    };
    let retry = entry.spec.behavior.retry;
    let max_attempts = retry.map_or(1, |retry| retry.attempts);
    let mut pause = retry.map_or(Duration::ZERO, |retry| retry.backoff);
    let mut attempts = 1;
    loop {
        let result = run_once(call, caller, entry, deadline).await;
        let again = attempts < max_attempts
            && result.as_ref().map_or_else(is_retryable, |outcome| outcome.error().is_some_and(is_retryable));
        if !again || Instant::now() + pause >= deadline {
            return result.map(|mut outcome| {
                outcome.meta.attempts = attempts;
                outcome
            });
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2);
        attempts += 1;
    }
}

/// Failures that another run of the same call may not have.
fn is_retryable(error: &Error) -> bool {
    // A tool that chose how the call ends would choose the same again.
    error.details.rpc.is_none()
        && matches!(error.kind, ErrorKind::ToolFailed | ErrorKind::InvalidOutput | ErrorKind::Unavailable)
}

async fn run_once(
    call: &Call,
    caller: &dyn Caller,
    entry: &Entry,
    deadline: Instant,
) -> Result<Outcome, Error> {
    let run = entry.runner.run(Run { call, caller, spec: &entry.spec, deadline });
    let last = hard_deadline(call, entry, deadline) + GRACE;
    match tokio::time::timeout_at(last.into(), run).await {
        Ok(result) => result,
        Err(_) => {
            let message = format!("'{}' did not stop at its deadline and was abandoned", entry.spec.exposed);
            Err(Error::new(ErrorKind::Timeout, message))
        }
    }
}

/// When the run must be over even if its clock stopped for questions. The caller's own clock never stops.
fn hard_deadline(call: &Call, entry: &Entry, deadline: Instant) -> Instant {
    if !entry.spec.behavior.dialog {
        return deadline;
    }
    let stretched = deadline + Run::MAX_WAIT_FOR_ANSWERS;
    call.deadline.map_or(stretched, |asked| asked.min(stretched))
}

/// The earlier of the tool's own limit and the caller's.
fn deadline(call: &Call, entry: &Entry, started: Instant) -> Instant {
    let own = started + entry.spec.limits.timeout;
    call.deadline.map_or(own, |asked| asked.min(own))
}
