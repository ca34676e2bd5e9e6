//! The stores as plain maps, for tests: the model the others are compared with.

mod archive;
mod artifacts;
mod cache;
mod events;
mod graph;
mod jobs;
mod limits;

pub use archive::Archive;
pub use artifacts::Artifacts;
pub use cache::Cache;
pub use events::Events;
pub use graph::Graph;
pub use jobs::Jobs;
pub use limits::Limits;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolyard_engine::stores::{StoreError, StoreFuture};

/// What the stores of one yard share.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Tables>>);

#[derive(Clone, Default)]
struct Tables {
    jobs: jobs::Table,
    events: events::Ring,
}

impl Memory {
    /// `ring`: how many events are kept, at least one.
    pub fn new(ring: u64) -> Memory {
        Memory(Arc::new(Mutex::new(Tables { jobs: Default::default(), events: events::Ring::new(ring) })))
    }

    /// A copy that goes its own way from here.
    pub fn fork(&self) -> Memory {
        let tables = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Memory(Arc::new(Mutex::new(tables)))
    }

    /// Each call is a transaction of its own: the lock is held for all of it, and checks come before changes.
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tables) -> Result<T, StoreError>,
    ) -> StoreFuture<'static, T> {
        let result = work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Box::pin(std::future::ready(result))
    }
}

/// For the stores that share nothing with others.
fn reply<'a, T: Send + 'a>(result: Result<T, StoreError>) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
