//! Gate: the tool runs, within its time, its concurrency and its retries.

use crate::registry::{Entry, Run};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use toolyard_protocol::{Call, Caller, Error, ErrorKind, Outcome};

/// Runners keep the deadline themselves, because they know how to stop their work and what to say about it.
/// This long after it, one that did not is dropped, which stops it too.
const GRACE: Duration = Duration::from_secs(5);

/// The place that the tool's `concurrency` asks for.
pub enum Seat {
    ToFind,
    /// Found before; jobs wait for theirs without a deadline.
    Taken(Option<OwnedSemaphorePermit>),
}

pub async fn run(
    call: &Call,
    caller: &dyn Caller,
    entry: &Entry,
    deadline: Instant,
    seat: Seat,
) -> Result<Outcome, Error> {
    let _place = match seat {
        Seat::ToFind => entry.controls.place(deadline).await?,
        Seat::Taken(place) => place,
    };
    let retry = entry.spec.conduct.retry;
    let most = retry.map_or(1, |retry| retry.attempts);
    let mut pause = retry.map_or(Duration::ZERO, |retry| retry.backoff);
    let mut attempts = 1;
    loop {
        let result = once(call, caller, entry, deadline).await;
        let again = attempts < most
            && result.as_ref().map_or_else(may_pass, |outcome| outcome.error().is_some_and(may_pass));
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
fn may_pass(error: &Error) -> bool {
    // A tool that chose how the call ends would choose the same again.
    error.details.rpc.is_none()
        && matches!(error.kind, ErrorKind::ToolFailed | ErrorKind::InvalidOutput | ErrorKind::Unavailable)
}

async fn once(call: &Call, caller: &dyn Caller, entry: &Entry, deadline: Instant) -> Result<Outcome, Error> {
    let run = entry.runner.run(Run { call, caller, spec: &entry.spec, deadline });
    let last = last_moment(call, entry, deadline) + GRACE;
    match tokio::time::timeout_at(last.into(), run).await {
        Ok(result) => result,
        Err(_) => {
            let message = format!("'{}' did not stop at its deadline and was abandoned", entry.spec.exposed);
            Err(Error::new(ErrorKind::Timeout, message))
        }
    }
}

/// When the run must be over even if its clock stopped for questions. The caller's own clock never stops.
fn last_moment(call: &Call, entry: &Entry, deadline: Instant) -> Instant {
    if !entry.spec.conduct.dialog {
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
