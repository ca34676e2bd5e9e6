//! Bytes that wait until clients read them, of all sessions and connections together.
//!
//! At the bound, results that are kept for resumption go first, the oldest first. Then the clients that have read
//! nothing for longest are disconnected. The client that was active last is spared, so that one large message can
//! always be delivered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use tracing::warn;

/// After the bound was reached, this part of it is free again, so that holders are not searched for every message.
const FREED_PART: usize = 8;

pub(crate) struct Buffers {
    max: usize,
    used: AtomicUsize,
    table: Mutex<Table>,
    /// Held by the task that makes room.
    making_room: Mutex<()>,
}

#[derive(Default)]
struct Table {
    next: u64,
    holders: HashMap<u64, Weak<dyn Holder>>,
}

/// Something that holds bytes for a client.
pub(crate) trait Holder: Send + Sync {
    /// `None` while it holds nothing that can be freed.
    fn held(&self) -> Option<Held>;

    /// Frees the bytes; a client that is reading them is disconnected.
    fn release(&self);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub bytes: usize,
    /// Kept for a client that may come back; nobody is reading.
    pub kept: bool,
    /// When the client last read something, or the result was finished.
    pub since: Instant,
}

/// The bytes of one holder. Dropping it gives them back.
pub(crate) struct Share {
    buffers: Arc<Buffers>,
    key: u64,
    bytes: AtomicUsize,
}

impl Buffers {
    pub fn new(max: usize) -> Arc<Buffers> {
        Arc::new(Buffers {
            max,
            used: AtomicUsize::new(0),
            table: Mutex::default(),
            making_room: Mutex::default(),
        })
    }

    pub fn register(self: &Arc<Self>, holder: Weak<dyn Holder>) -> Share {
        let mut table = self.table();
        table.next += 1;
        let key = table.next;
        table.holders.insert(key, holder);
        Share { buffers: self.clone(), key, bytes: AtomicUsize::new(0) }
    }

    /// Frees bytes while there are too many. No lock of a holder may be held.
    pub fn make_room(&self) {
        if self.used.load(Ordering::Relaxed) <= self.max {
            return;
        }
        // Another task is making room already.
        let Ok(_making) = self.making_room.try_lock() else { return };
        let mut over = self.used.load(Ordering::Relaxed).saturating_sub(self.max - self.max / FREED_PART);
        let (mut kept, mut disconnected) = (0, 0);
        for (held, holder) in self.by_age() {
            if over == 0 {
                break;
            }
            holder.release();
            over = over.saturating_sub(held.bytes);
            if held.kept {
                kept += 1;
            } else {
                disconnected += 1;
            }
        }
        if kept + disconnected > 0 {
            let most = self.max;
            warn!(target: crate::server::TARGET, kept, disconnected,
                "max_buffered_bytes ({most}) reached: results kept for resumption were dropped, slow clients disconnected");
        }
    }

    /// Those to be released first come first; the client that read last is left out.
    fn by_age(&self) -> Vec<(Held, Arc<dyn Holder>)> {
        let holders: Vec<Arc<dyn Holder>> = self.table().holders.values().filter_map(Weak::upgrade).collect();
        let mut found: Vec<(Held, Arc<dyn Holder>)> =
            holders.into_iter().filter_map(|holder| Some((holder.held()?, holder))).collect();
        found.sort_by_key(|(held, _)| (!held.kept, held.since));
        found.pop_if(|(held, _)| !held.kept);
        found
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// The holder now has this many bytes. [`Share::make_room`] must follow when it no longer holds its lock.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if bytes >= before {
            self.buffers.used.fetch_add(bytes - before, Ordering::Relaxed);
        } else {
            self.buffers.used.fetch_sub(before - bytes, Ordering::Relaxed);
        }
    }

    pub fn make_room(&self) {
        self.buffers.make_room();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
        self.buffers.table().holders.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    struct TestHolder {
        bytes: usize,
        kept: bool,
        since: Instant,
        released: AtomicBool,
        share: std::sync::OnceLock<Share>,
    }

    impl Holder for TestHolder {
        fn held(&self) -> Option<Held> {
            let gone = self.released.load(Ordering::SeqCst);
            (!gone).then_some(Held { bytes: self.bytes, kept: self.kept, since: self.since })
        }

        fn release(&self) {
            self.released.store(true, Ordering::SeqCst);
            self.share.get().unwrap().set(0);
        }
    }

    fn hold(buffers: &Arc<Buffers>, bytes: usize, kept: bool, since: Instant) -> Arc<TestHolder> {
        let share = std::sync::OnceLock::new();
        let holder = Arc::new(TestHolder { bytes, kept, since, released: AtomicBool::new(false), share });
        let weak: Weak<TestHolder> = Arc::downgrade(&holder);
        let share = buffers.register(weak);
        share.set(bytes);
        assert!(holder.share.set(share).is_ok());
        buffers.make_room();
        holder
    }

    #[test]
    fn kept_results_go_first_then_the_slowest_reader_and_the_newest_stays() {
        let (buffers, start) = (Buffers::new(800), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let slow = hold(&buffers, 300, false, at(0));
        let newer_kept = hold(&buffers, 200, true, at(2));
        let older_kept = hold(&buffers, 200, true, at(1));
        let gone = |holder: &TestHolder| holder.released.load(Ordering::SeqCst);
        let reader = hold(&buffers, 100, false, at(3));
        assert!(!gone(&older_kept), "exactly the bound fits");
        let fresh = hold(&buffers, 100, false, at(4));
        assert!(gone(&older_kept) && !gone(&newer_kept) && !gone(&slow));
        let large = hold(&buffers, 500, false, at(5));
        assert!(gone(&newer_kept) && gone(&slow) && !gone(&reader) && !gone(&fresh) && !gone(&large));
        let alone = hold(&buffers, 5000, false, at(6));
        assert!(gone(&reader) && gone(&fresh) && gone(&large) && !gone(&alone));
        drop((slow, newer_kept, older_kept, reader, fresh, large, alone));
        assert_eq!(buffers.used.load(Ordering::SeqCst), 0);
        assert!(buffers.table().holders.is_empty());
    }
}
