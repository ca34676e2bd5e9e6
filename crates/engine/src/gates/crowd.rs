//! Gate: how many calls run at once, of all tools and callers together. Jobs have a bound of their own.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_protocol::{Error, ErrorKind};

#[derive(Clone)]
pub struct Crowd {
    most: usize,
    free: Arc<Semaphore>,
}

impl Crowd {
    pub const DEFAULT: usize = 2000;

    pub fn new(most: usize) -> Crowd {
        let most = most.min(Semaphore::MAX_PERMITS);
        Crowd { most, free: Arc::new(Semaphore::new(most)) }
    }

    /// Never waits: a queue of calls in front of everything would only hide that there are too many.
    pub fn enter(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.free.clone().try_acquire_owned().map_err(|_| {
            Error::new(ErrorKind::Busy, format!("{} calls are running, and no more may at once", self.most))
                .hint("try again when some have ended, or raise [limits] max_calls")
        })
    }
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd::new(Crowd::DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_after_its_call() {
        let crowd = Crowd::new(1);
        let held = crowd.enter().unwrap();
        let refused = crowd.clone().enter().unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Busy);
        drop(held);
        assert!(crowd.enter().is_ok());
    }
}
