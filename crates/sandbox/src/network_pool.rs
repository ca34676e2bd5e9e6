//! Pool of network namespaces with nothing in them but the loopback interface, for runs without a network.
//!
//! Creating and removing one for each call would cost more than the rest of the sandbox. A namespace belongs to one
//! run at a time and is used again once its whole process tree is dead, so that no socket is left in it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use super::fds;

/// Idle ones; each is some hundred kilobytes of kernel memory.
const MAX: usize = 32;

#[derive(Default)]
pub struct NetworkPool {
    idle: Mutex<Vec<OwnedFd>>,
}

impl NetworkPool {
    pub fn take(&self) -> Option<OwnedFd> {
        self.lock().pop()
    }

    fn put(&self, namespace: OwnedFd) {
        let mut idle = self.lock();
        if idle.len() < MAX {
            idle.push(namespace);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<OwnedFd>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The network namespace of a run.
pub struct RunNetwork {
    pool: Arc<NetworkPool>,
    /// From the pool, or sent by the launcher that created it.
    namespace: Option<OwnedFd>,
}

impl RunNetwork {
    pub fn new(pool: &Arc<NetworkPool>, namespace: Option<OwnedFd>) -> RunNetwork {
        RunNetwork { pool: pool.clone(), namespace }
    }

    pub fn descriptor(&self) -> Option<&OwnedFd> {
        self.namespace.as_ref()
    }

    /// The launcher created it.
    pub fn set(&mut self, namespace: OwnedFd) {
        self.namespace = fds::above_stdio(namespace).ok();
    }

    /// No process is left in it.
    pub fn release(&mut self) {
        if let Some(namespace) = self.namespace.take() {
            self.pool.put(namespace);
        }
    }
}
