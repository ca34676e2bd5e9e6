//! The number of the newest event, told to those who wait as soon as it is committed.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// Only the writer's thread appends; whoever looks may tell of what another process wrote.
pub struct NewestEvent {
    /// Appended in the transaction that is under way.
    pending: AtomicU64,
    committed: watch::Sender<u64>,
}

impl Default for NewestEvent {
    fn default() -> NewestEvent {
        NewestEvent { pending: AtomicU64::new(0), committed: watch::Sender::new(0) }
    }
}

impl NewestEvent {
    /// Called inside a change.
    pub fn appended(&self, seq: u64) {
        self.pending.store(seq, Ordering::Relaxed);
    }

    /// To be given to [`NewestEvent::reset_pending`] when the change after this moment fails.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    pub fn reset_pending(&self, pending: u64) {
        self.pending.store(pending, Ordering::Relaxed);
    }

    pub fn commit(&self) {
        self.observe(self.pending());
    }

    /// Numbers only rise: what is older than what is known tells nothing.
    pub fn observe(&self, seq: u64) {
        self.committed.send_if_modified(|known| {
            let newer = seq > *known;
            *known = seq.max(*known);
            newer
        });
    }

    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.committed.subscribe()
    }
}
