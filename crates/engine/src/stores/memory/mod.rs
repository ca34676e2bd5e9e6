//! Every store as plain maps: the model that the others are compared with, and a store for what may be forgotten.

mod archive;
mod artifacts;
mod cache;
mod graph;
mod limits;

pub use archive::Archive;
pub use artifacts::Artifacts;
pub use cache::Kept;
pub use graph::Graph;
pub use limits::Limits;

use super::{Reply, StoreError};
use std::sync::{Mutex, MutexGuard};

fn reply<'a, T: Send + 'a>(result: Result<T, StoreError>) -> Reply<'a, T> {
    Box::pin(std::future::ready(result))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
