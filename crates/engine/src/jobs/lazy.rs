//! The way to the job service: opened when the first job comes, so that plain calls never touch its files.

use super::Jobs;
use std::sync::{Arc, Mutex, OnceLock};
use toolyard_protocol::{Error, ErrorKind};

type Open = Box<dyn Fn() -> Result<Arc<Jobs>, Error> + Send + Sync>;

/// Clones lead to the same service.
#[derive(Clone)]
pub struct LazyJobs(Arc<LazyInner>);

struct LazyInner {
    opened: OnceLock<Arc<Jobs>>,
    /// Held while opening, so that it happens once. A failure is tried again by the next who comes.
    open: Mutex<Open>,
}

impl LazyJobs {
    pub fn new(open: impl Fn() -> Result<Arc<Jobs>, Error> + Send + Sync + 'static) -> LazyJobs {
        LazyJobs(Arc::new(LazyInner { opened: OnceLock::new(), open: Mutex::new(Box::new(open)) }))
    }

    /// For engines that run no jobs.
    pub fn unavailable() -> LazyJobs {
        LazyJobs::new(|| Err(Error::new(ErrorKind::Unavailable, "jobs are not available here")))
    }

    pub fn jobs(&self) -> Result<&Arc<Jobs>, Error> {
        if let Some(jobs) = self.0.opened.get() {
            return Ok(jobs);
        }
        let open = self.0.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(jobs) = self.0.opened.get() {
            return Ok(jobs);
        }
        let jobs = open()?;
        Ok(self.0.opened.get_or_init(|| jobs))
    }

    /// The service, if anyone has needed it.
    pub fn if_open(&self) -> Option<&Arc<Jobs>> {
        self.0.opened.get()
    }
}
