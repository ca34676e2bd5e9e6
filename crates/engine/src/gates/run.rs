//! Gate: runs the tool within its deadline, concurrency limit and retries. Equal concurrent calls of a
//! deterministic tool share one run.

use super::Ran;
use super::cache::{Lookup, ToStore, input_version};
use super::concurrency::ToolPermit;
use crate::cache::{Cache, SharedRun};
use crate::registry::{Entry, Run};
use futures_util::FutureExt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_protocol::{Call, Caller, Error, ErrorKind, NoopCaller, Outcome};

/// Runners enforce the deadline themselves, because they know how to stop their work and what to report.
/// A run that has not ended this long after the deadline is dropped, which stops it too.
const GRACE: Duration = Duration::from_secs(5);

/// Turns a panic into an error: it must not take the caller's task and its permits with it.
/// The work is pinned where it is, because a call's future is large and expensive to move.
pub async fn catch_panic<T>(work: Pin<&mut impl Future<Output = Result<T, Error>>>) -> Result<T, Error> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::new(ErrorKind::Internal, format!("the call panicked: {text}"))
            .hint("this is a fault in Toolyard; the log of `serve` says where"))
    })
}

/// Runs the tool, unless the lookup found a cached result.
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
        Lookup::Hit(outcome) => {
            return Ok(Ran { entry, outcome: *outcome, to_store: None, is_validated: true });
        }
        Lookup::Miss(key) => key,
        Lookup::Uncached => {
            let outcome = run_with_retries(call, caller, &entry, deadline, permit).await?;
            return Ok(Ran { entry, outcome, to_store: None, is_validated: false });
        }
    };
    caller.begin_work()?;
    // The shared run has the tool's timeout; each caller stops waiting at its own deadline, and the run is
    // dropped with its last caller. It holds its entry, so that no other version has the same address.
    let version = Arc::as_ptr(&entry) as usize;
    let shared = cache
        .single_flight(key, version, || run_for_all(call.clone(), entry.clone(), started, permit).boxed());
    match tokio::time::timeout_at(deadline.into(), shared).await {
        Ok(SharedRun { result, inputs, stored }) => {
            let to_store = Some(ToStore { key, inputs, stored });
            Ok(Ran { entry, outcome: result?, to_store, is_validated: false })
        }
        Err(_) => {
            Err(Error::new(ErrorKind::Timeout, format!("'{}' did not finish in time", entry.spec.exposed)))
        }
    }
}

/// A run shared by several callers can ask none of them questions and has no caller's deadline.
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

/// Whether another run of the same call may succeed.
fn is_retryable(error: &Error) -> bool {
    // A tool that chose its own error would choose it again.
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

/// The deadline including the pauses for questions. The caller's own deadline is never paused.
fn hard_deadline(call: &Call, entry: &Entry, deadline: Instant) -> Instant {
    if !entry.spec.behavior.dialog {
        return deadline;
    }
    let stretched = deadline + Run::MAX_WAIT_FOR_ANSWERS;
    call.deadline.map_or(stretched, |asked| asked.min(stretched))
}

/// The earlier of the tool's timeout and the caller's deadline.
fn deadline(call: &Call, entry: &Entry, started: Instant) -> Instant {
    let own = started + entry.spec.limits.timeout;
    call.deadline.map_or(own, |asked| asked.min(own))
}
