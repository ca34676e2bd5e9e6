//! Bytes that wait until clients read them, of all sessions and connections together, and the connections themselves.
//!
//! At the bound, results that are kept for resumption go first, the oldest first. Then the clients that have read
//! nothing for longest are disconnected. The client that was active last is spared, so that one large message can
//! always be delivered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tracing::warn;

/// After the bound was reached, this part of it is free again, so that holders are not searched for every message.
const FREED_PART: usize = 8;

/// What an HTTP connection with one call takes, measured: 30 KB, and the allocator's share.
const CONNECTION: usize = 40 << 10;
/// However many connections there are, responses get this part of the bound.
const LEAST_PART: usize = 8;

/// A client that has read nothing for this long is disconnected when a response waits for space.
const STALLED: Duration = Duration::from_secs(1);
/// How long to wait before stalled clients are looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(crate) struct Buffers {
    max: usize,
    used: AtomicUsize,
    /// The part of `used` that clients hold who are being disconnected.
    leaving: AtomicUsize,
    connections: AtomicUsize,
    table: Mutex<Table>,
    /// Held by the task that makes room.
    making_room: Mutex<()>,
    freed: Notify,
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

    /// Frees the bytes; a client that is reading them is disconnected. It is not asked again.
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

/// Space for a response, until it is dropped: then something else counts the response.
pub(crate) struct Space {
    buffers: Arc<Buffers>,
    bytes: usize,
}

impl Drop for Space {
    fn drop(&mut self) {
        self.buffers.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.buffers.freed.notify_waiters();
    }
}

/// An open connection, until it is dropped.
pub(crate) struct CountedConnection(Arc<Buffers>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bytes of one holder. Dropping it gives them back.
pub(crate) struct Share {
    buffers: Arc<Buffers>,
    key: u64,
    bytes: AtomicUsize,
    leaving: AtomicUsize,
}

impl Buffers {
    pub fn new(max: usize) -> Arc<Buffers> {
        Arc::new(Buffers {
            max,
            used: AtomicUsize::new(0),
            leaving: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            table: Mutex::default(),
            making_room: Mutex::default(),
            freed: Notify::new(),
        })
    }

    pub fn connect(self: &Arc<Self>) -> CountedConnection {
        self.connections.fetch_add(1, Ordering::Relaxed);
        CountedConnection(self.clone())
    }

    pub fn register(self: &Arc<Self>, holder: Weak<dyn Holder>) -> Share {
        let mut table = self.table();
        table.next += 1;
        let key = table.next;
        table.holders.insert(key, holder);
        Share { buffers: self.clone(), key, bytes: AtomicUsize::new(0), leaving: AtomicUsize::new(0) }
    }

    /// Space for a response that is about to be written: waits while there is none. Many calls may end at once, faster
    /// than their responses can be sent.
    pub async fn space(self: &Arc<Self>, bytes: usize) -> Space {
        loop {
            let freed = self.freed.notified();
            let fits = |used: usize| (used == 0 || used + bytes <= self.goal()).then_some(used + bytes);
            if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok() {
                return Space { buffers: self.clone(), bytes };
            }
            self.release_while(bytes, STALLED);
            // Clients that read are not disconnected for it, so time has to pass.
            let _ = tokio::time::timeout(LOOK_AGAIN, freed).await;
        }
    }

    /// Frees bytes while there are too many. No lock of a holder may be held.
    pub fn make_room(&self) {
        if self.used.load(Ordering::Relaxed) > self.limit() {
            self.release_while(0, Duration::ZERO);
        }
    }

    /// Releases holders until `bytes` more fit. Clients that have read within `stalled` are left alone.
    fn release_while(&self, bytes: usize, stalled: Duration) {
        // Another task is making room already.
        let Ok(_making) = self.making_room.try_lock() else { return };
        let goal = self.goal().saturating_sub(bytes);
        let staying = self.used.load(Ordering::Relaxed).saturating_sub(self.leaving.load(Ordering::Relaxed));
        let mut over = staying.saturating_sub(goal);
        let (mut kept, mut disconnected) = (0, 0);
        for (held, holder) in self.by_age() {
            if over == 0 {
                break;
            }
            if !held.kept && held.since.elapsed() < stalled {
                continue;
            }
            holder.release();
            over = over.saturating_sub(held.bytes);
            if held.kept {
                kept += 1;
            } else {
                disconnected += 1;
            }
        }
        if disconnected > 0 {
            warn!(target: crate::server::TARGET, kept, disconnected,
                "max_buffered_bytes reached: results kept for resumption were dropped, slow clients disconnected");
        }
    }

    /// What the connections leave for responses.
    fn limit(&self) -> usize {
        let connections = self.connections.load(Ordering::Relaxed).saturating_mul(CONNECTION);
        self.max.saturating_sub(connections).max(self.max / LEAST_PART)
    }

    /// What may be used while a response waits for space.
    fn goal(&self) -> usize {
        let limit = self.limit();
        limit - limit / FREED_PART
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
            self.buffers.freed.notify_waiters();
        }
        self.set_leaving(bytes.min(self.leaving.load(Ordering::Relaxed)));
    }

    /// The client is being disconnected: its bytes count until its connection has dropped them.
    pub fn leave(&self) {
        self.set_leaving(self.bytes.load(Ordering::Relaxed));
    }

    fn set_leaving(&self, bytes: usize) {
        let before = self.leaving.swap(bytes, Ordering::Relaxed);
        self.buffers.leaving.fetch_add(bytes, Ordering::Relaxed);
        self.buffers.leaving.fetch_sub(before, Ordering::Relaxed);
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

    #[tokio::test]
    async fn a_response_waits_for_space_and_stalled_clients_make_room() {
        let (buffers, now) = (Buffers::new(800), Instant::now());
        let reading = hold(&buffers, 400, false, now + Duration::from_secs(60));
        let newest = hold(&buffers, 100, false, now + Duration::from_secs(61));
        let first = buffers.space(100).await;
        let waiting = buffers.clone();
        let second = tokio::spawn(async move { waiting.space(150).await.bytes });
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert!(!second.is_finished(), "a client that reads is not disconnected");
        drop(first);
        assert_eq!(second.await.unwrap(), 150);
        let stalled = hold(&buffers, 200, false, now.checked_sub(Duration::from_secs(5)).unwrap());
        assert_eq!(buffers.space(150).await.bytes, 150);
        assert!(stalled.released.load(Ordering::SeqCst) && !reading.released.load(Ordering::SeqCst));
        drop((reading, newest, stalled));
        assert_eq!(buffers.used.load(Ordering::SeqCst), 0);
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
