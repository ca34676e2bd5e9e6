//! Returns unused memory to the system after a load peak.
//!
//! The allocator has one heap per thread, and a thread reclaims blocks that other threads freed only when it
//! next allocates that size. After a burst of connections no thread does, and the memory would stay in use.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Periodically makes every worker of this runtime release its unused memory.
pub async fn release_idle_memory() {
    let workers = tokio::runtime::Handle::current().metrics().num_workers();
    loop {
        tokio::time::sleep(PAUSE).await;
        ROUND.fetch_add(1, Ordering::Relaxed);
        // Workers collect when they park; parked ones are woken first.
        for _ in 0..workers * 2 {
            tokio::spawn(tokio::task::yield_now());
        }
    }
}

/// Called when a worker parks: collects once per round.
pub fn on_worker_park() {
    let round = ROUND.load(Ordering::Relaxed);
    if SEEN.replace(round) != round {
        // SAFETY: it uses the calling thread's heap only and may be called at any time.
        unsafe { mi_collect(true) }
    }
}

const PAUSE: Duration = Duration::from_secs(2);

static ROUND: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

unsafe extern "C" {
    /// Part of mimalloc, the global allocator.
    fn mi_collect(force: bool);
}
