//! In-memory stores for tests: the model that the others are compared with.

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

/// State shared by the stores of one yard.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Tables>>);

#[derive(Clone, Default)]
struct Tables {
    jobs: jobs::Table,
    events: events::Ring,
}

impl Memory {
    /// `ring`: capacity of the event ring, at least one.
    pub fn new(ring: u64) -> Memory {
        Memory(Arc::new(Mutex::new(Tables { jobs: Default::default(), events: events::Ring::new(ring) })))
    }

    /// An independent copy.
    pub fn fork(&self) -> Memory {
        let tables = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Memory(Arc::new(Mutex::new(tables)))
    }

    /// Runs one transaction: the lock is held throughout, and checks come before changes.
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tables) -> Result<T, StoreError>,
    ) -> StoreFuture<'static, T> {
        let result = work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Box::pin(std::future::ready(result))
    }
}

/// A ready future, for the stores without shared state.
fn reply<'a, T: Send + 'a>(result: Result<T, StoreError>) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
