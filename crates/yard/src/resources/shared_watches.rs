//! Shares one watch per URI among its subscribers, so that each change is announced once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use toolyard_protocol::Error;

pub struct SharedWatches<T>(Mutex<HashMap<Arc<str>, Weak<T>>>);

impl<T> Default for SharedWatches<T> {
    fn default() -> SharedWatches<T> {
        SharedWatches(Mutex::default())
    }
}

impl<T> SharedWatches<T> {
    /// The existing watch, else a new one.
    pub fn get(&self, uri: &Arc<str>, make: impl FnOnce() -> Result<T, Error>) -> Result<Arc<T>, Error> {
        let mut known = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        known.retain(|_, watch| watch.strong_count() > 0);
        if let Some(watch) = known.get(uri).and_then(Weak::upgrade) {
            return Ok(watch);
        }
        let watch = Arc::new(make()?);
        known.insert(uri.clone(), Arc::downgrade(&watch));
        Ok(watch)
    }
}
