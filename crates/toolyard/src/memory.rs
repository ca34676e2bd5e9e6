//! Returns unused memory to the system after a load peak.
//!
//! The allocator has one heap per thread, and a thread reclaims blocks that other threads freed only when it
//! next allocates that size. After a burst of connections no thread does, and the memory would stay in use.

use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Freed memory goes back to the system soon: after a second, the allocator's default, it would be half as much again as
/// what large responses take.
fn release_freed_memory_soon() {
    // SAFETY: it sets a number that is read atomically.
    unsafe { mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) }
}

/// Periodically makes every worker of this runtime release its unused memory.
pub async fn release_idle_memory() {
    release_freed_memory_soon();
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

/// `mi_option_purge_delay`, and what it is set to.
const PURGE_DELAY: c_int = 15;
const PURGE_DELAY_MS: c_long = 10;

static ROUND: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

unsafe extern "C" {
    /// Part of mimalloc, the global allocator.
    fn mi_collect(force: bool);
    fn mi_option_set(option: c_int, value: c_long);
    #[cfg(test)]
    fn mi_option_get(option: c_int) -> c_long;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_option_is_still_that_of_the_purge_delay() {
        // SAFETY: it reads a number.
        let delay = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000, "the default of mimalloc 3; has another version moved the option?");
        release_freed_memory_soon();
        assert_eq!(delay(), PURGE_DELAY_MS);
    }
}
