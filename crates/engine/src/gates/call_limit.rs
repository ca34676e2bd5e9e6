//! Gate: how many calls run at once, of all tools and callers together. Jobs have a bound of their own.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_protocol::{Error, ErrorKind};

#[derive(Clone)]
pub struct CallLimit {
    max_calls: usize,
    permits: Arc<Semaphore>,
}

impl CallLimit {
    pub const DEFAULT: usize = 2000;

    pub fn new(max_calls: usize) -> CallLimit {
        let max_calls = max_calls.min(Semaphore::MAX_PERMITS);
        CallLimit { max_calls, permits: Arc::new(Semaphore::new(max_calls)) }
    }

    /// Never waits: a queue of calls in front of everything would only hide that there are too many.
    pub fn try_acquire(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.permits.clone().try_acquire_owned().map_err(|_| {
            Error::new(
                ErrorKind::Busy,
                format!("{} calls are running, and no more may at once", self.max_calls),
            )
            .hint("try again when some have ended, or raise [limits] max_calls")
        })
    }
}

impl Default for CallLimit {
    fn default() -> CallLimit {
        CallLimit::new(CallLimit::DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_after_its_call() {
        let call_limit = CallLimit::new(1);
        let held = call_limit.try_acquire().unwrap();
        let refused = call_limit.clone().try_acquire().unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Busy);
        drop(held);
        assert!(call_limit.try_acquire().is_ok());
    }
}
