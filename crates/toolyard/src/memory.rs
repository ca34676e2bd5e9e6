//! Gives memory back that a crowd left behind.
//!
//! The allocator keeps a heap for each thread, and a thread notices what others freed in its heap only when it asks for
//! memory of that size again. After a flood of connections no one asks, and the memory would stay.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Keeps asking every worker of this runtime to give back what it does not use.
pub async fn release_idle_memory() {
    let workers = tokio::runtime::Handle::current().metrics().num_workers();
    loop {
        tokio::time::sleep(PAUSE).await;
        ROUND.fetch_add(1, Ordering::Relaxed);
        // A worker collects when it goes to sleep; those that sleep already are woken for it.
        for _ in 0..workers * 2 {
            tokio::spawn(tokio::task::yield_now());
        }
    }
}

/// For workers that are about to sleep: collects once in each round.
pub fn on_worker_park() {
    let round = ROUND.load(Ordering::Relaxed);
    if SEEN.replace(round) != round {
        // SAFETY: it works on the heap of the calling thread, at any time.
        unsafe { mi_collect(true) }
    }
}

const PAUSE: Duration = Duration::from_secs(2);

static ROUND: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

unsafe extern "C" {
    /// Of mimalloc, which is the allocator of this program.
    fn mi_collect(force: bool);
}
