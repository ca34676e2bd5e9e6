//! Gate: the limit of concurrent calls of the process. A tool's own limit is applied by its run; jobs have
//! separate limits.

use crate::execute::Execution;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_protocol::{Behavior, Error, ErrorKind};

/// Calls that may wait for a permit of one tool; more are refused at once.
const MAX_WAITING: usize = 1000;

/// The permit must be held until the call ends.
pub fn acquire(limit: &CallLimit, execution: &Execution<'_>) -> Result<Option<CallPermit>, Error> {
    match execution {
        Execution::Job(_) => Ok(None),
        Execution::Direct(_) | Execution::Operation(..) => limit.try_acquire().map(Some),
    }
}

/// The concurrency limit of the process; clones share it.
#[derive(Clone)]
pub struct CallLimit(Arc<Counter>);

struct Counter {
    max_calls: AtomicUsize,
    running: AtomicUsize,
}

/// One running call.
pub struct CallPermit(Arc<Counter>);

impl CallLimit {
    pub const DEFAULT: usize = 2000;

    pub fn new(max_calls: usize) -> CallLimit {
        CallLimit(Arc::new(Counter { max_calls: max_calls.into(), running: AtomicUsize::new(0) }))
    }

    /// Calls beyond a smaller limit run to their end.
    pub fn set_max_calls(&self, max_calls: usize) {
        self.0.max_calls.store(max_calls, Ordering::Relaxed);
    }

    /// Never waits: a queue in front of all calls would only hide the overload.
    pub fn try_acquire(&self) -> Result<CallPermit, Error> {
        let max_calls = self.0.max_calls.load(Ordering::Relaxed);
        let one_more = |running| (running < max_calls).then_some(running + 1);
        let counted = self.0.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.map(|_| CallPermit(self.0.clone())).map_err(|_| {
            Error::new(ErrorKind::Busy, format!("limit of {max_calls} concurrent calls reached"))
                .hint("try again later, or raise [limits] max_calls")
        })
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for CallLimit {
    fn default() -> CallLimit {
        CallLimit::new(CallLimit::DEFAULT)
    }
}

/// The `concurrency` limit of one tool, shared by all its versions so that a reload does not reset it.
pub struct ToolLimiter(Option<Permits>);

struct Permits {
    running: Arc<Semaphore>,
    waiting: Semaphore,
}

/// The permit that a run of a tool needs.
pub enum ToolPermit {
    ToAcquire,
    /// Already acquired: a job waits for its permit without a deadline.
    Acquired(Option<OwnedSemaphorePermit>),
}

impl ToolLimiter {
    pub fn new(behavior: &Behavior) -> ToolLimiter {
        ToolLimiter(behavior.concurrency.map(|permits| Permits {
            running: Arc::new(Semaphore::new(permits)),
            waiting: Semaphore::new(MAX_WAITING),
        }))
    }

    /// A permit, if one is free; `Some(None)` when the tool has no limit.
    pub fn try_acquire(&self) -> Option<Option<OwnedSemaphorePermit>> {
        let Some(permits) = &self.0 else { return Some(None) };
        permits.running.clone().try_acquire_owned().ok().map(Some)
    }

    /// Waits without a deadline: for jobs, whose number is bounded by the job store.
    pub async fn acquire(&self) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let Some(permits) = &self.0 else { return Ok(None) };
        let permit = permits.running.clone().acquire_owned().await;
        permit
            .map(Some)
            .map_err(|_| Error::new(ErrorKind::Internal, "the tool's concurrency limit is closed"))
    }

    /// Waits for a permit until `deadline`.
    pub async fn acquire_until(&self, deadline: Instant) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let Some(permits) = &self.0 else { return Ok(None) };
        let running = permits.running.clone();
        if let Ok(permit) = running.clone().try_acquire_owned() {
            return Ok(Some(permit));
        }
        let busy = || Error::new(ErrorKind::Busy, "the tool's concurrency limit is reached");
        let _waiting = permits.waiting.try_acquire().map_err(|_| busy().hint("try again later"))?;
        match tokio::time::timeout_at(deadline.into(), running.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            _ => Err(busy().hint("the call waited until its deadline; raise 'concurrency' or 'timeoutMs'")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_permit_is_free_again_after_its_call() {
        let limit = CallLimit::new(1);
        let held = limit.try_acquire().unwrap();
        let refused = limit.clone().try_acquire().err().unwrap();
        assert_eq!(refused.kind, ErrorKind::Busy);
        drop(held);
        assert!(limit.try_acquire().is_ok());
    }

    #[test]
    fn a_limit_can_be_raised_and_lowered_while_calls_run() {
        let limit = CallLimit::new(1);
        let first = limit.try_acquire().unwrap();
        limit.set_max_calls(3);
        let (second, third) = (limit.try_acquire().unwrap(), limit.try_acquire().unwrap());
        assert!(limit.try_acquire().is_err());
        limit.set_max_calls(2);
        drop(first);
        assert!(limit.try_acquire().is_err(), "two still run");
        drop((second, third));
        let (_one, _two) = (limit.try_acquire().unwrap(), limit.try_acquire().unwrap());
        assert!(limit.try_acquire().err().unwrap().message.contains("limit of 2 concurrent calls"));
    }

    #[tokio::test]
    async fn a_call_waits_for_a_permit_of_its_tool_until_its_deadline() {
        let behavior = Behavior { concurrency: Some(1), ..Behavior::default() };
        let limiter = ToolLimiter::new(&behavior);
        let soon = || Instant::now() + Duration::from_millis(20);
        let first = limiter.acquire_until(soon()).await.unwrap();
        assert_eq!(limiter.acquire_until(soon()).await.unwrap_err().kind, ErrorKind::Busy);
        drop(first);
        assert!(limiter.acquire_until(soon()).await.unwrap().is_some());
    }
}
