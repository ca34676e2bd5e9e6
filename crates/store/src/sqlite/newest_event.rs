//! The number of the newest event; waiters are notified as soon as it is committed.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// Only the writer thread appends; polls for events of other processes call `observe`.
pub struct NewestEvent {
    /// Last event appended in the open transaction.
    pending: AtomicU64,
    committed: watch::Sender<u64>,
}

impl Default for NewestEvent {
    fn default() -> NewestEvent {
        NewestEvent { pending: AtomicU64::new(0), committed: watch::Sender::new(0) }
    }
}

impl NewestEvent {
    /// Called within a write.
    pub fn appended(&self, seq: u64) {
        self.pending.store(seq, Ordering::Relaxed);
    }

    /// To be passed to [`NewestEvent::reset_pending`] if the next write fails.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    pub fn reset_pending(&self, pending: u64) {
        self.pending.store(pending, Ordering::Relaxed);
    }

    pub fn commit(&self) {
        self.observe(self.pending());
    }

    /// Raises the known number; older numbers are ignored.
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
