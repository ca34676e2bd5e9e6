//! Gate: the tool runs, within its time, its concurrency and its retries.

use crate::registry::{Entry, Run};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use toolyard_protocol::{Call, Caller, Error, ErrorKind, Outcome};

/// Runners keep the deadline themselves, because they know how to stop their work and what to say about it.
/// This long after it, one that did not is dropped, which stops it too.
const GRACE: Duration = Duration::from_secs(5);

/// The permit that the tool's `concurrency` asks for.
pub enum ToolPermit {
    ToAcquire,
    /// Found before; jobs wait for theirs without a deadline.
    Acquired(Option<OwnedSemaphorePermit>),
}

pub async fn run(
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
pub fn deadline(call: &Call, entry: &Entry, started: Instant) -> Instant {
    let own = started + entry.spec.limits.timeout;
    call.deadline.map_or(own, |asked| asked.min(own))
}
