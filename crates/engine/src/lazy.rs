//! A service that is opened when it is first needed, so that plain calls never touch its files.

use std::sync::{Arc, Mutex, OnceLock};
use toolyard_protocol::{Error, ErrorKind};

type Open<T> = Box<dyn Fn() -> Result<T, Error> + Send + Sync>;

/// Clones share the service.
pub struct Lazy<T>(Arc<Inner<T>>);

struct Inner<T> {
    opened: OnceLock<T>,
    /// Held while opening, so that it happens once. After a failure the next caller tries again.
    open: Mutex<Open<T>>,
}

impl<T> Lazy<T> {
    pub fn new(open: impl Fn() -> Result<T, Error> + Send + Sync + 'static) -> Lazy<T> {
        Lazy(Arc::new(Inner { opened: OnceLock::new(), open: Mutex::new(Box::new(open)) }))
    }

    pub fn unavailable() -> Lazy<T> {
        Lazy::new(|| Err(Error::new(ErrorKind::Unavailable, "the service is not available here")))
    }

    pub fn get(&self) -> Result<&T, Error> {
        if let Some(service) = self.0.opened.get() {
            return Ok(service);
        }
        let open = self.0.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(service) = self.0.opened.get() {
            return Ok(service);
        }
        let service = open()?;
        Ok(self.0.opened.get_or_init(|| service))
    }

    /// The service, if it was opened before.
    pub fn if_open(&self) -> Option<&T> {
        self.0.opened.get()
    }
}

impl<T> Clone for Lazy<T> {
    fn clone(&self) -> Lazy<T> {
        Lazy(self.0.clone())
    }
}
