//! Time and randomness behind small traits, so that tests can choose both.

use rustix::rand::GetRandomFlags;
use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};
use toolyard_protocol::{Id, Timestamp};

/// The wall clock.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// Unpredictable bytes, for ids.
pub trait Random: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}

/// The machine's own clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_unix_ms(since.as_millis() as u64)
    }
}

/// The kernel's random source, read 1 KiB at a time so that most ids cost no system call.
pub struct SystemRandom;

thread_local! {
    static POOL: RefCell<(Vec<u8>, usize)> = const { RefCell::new((Vec::new(), 0)) };
}

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        POOL.with_borrow_mut(|(pool, used)| {
            for byte in bytes {
                if *used == pool.len() {
                    pool.resize(1024, 0);
                    refill(pool);
                    *used = 0;
                }
                // Used once, then wiped: a later memory disclosure must not reveal past ids.
                *byte = std::mem::take(&mut pool[*used]);
                *used += 1;
            }
        });
    }
}

fn refill(pool: &mut [u8]) {
    let mut filled = 0;
    while filled < pool.len() {
        // An error can only be EINTR here: the pool is small and there are no flags. Try again.
        filled += rustix::rand::getrandom(&mut pool[filled..], GetRandomFlags::empty()).unwrap_or(0);
    }
}

/// A fresh time-ordered id.
pub fn new_id(clock: &dyn Clock, random: &dyn Random) -> Id {
    let mut bits = [0u8; 10];
    random.fill(&mut bits);
    Id::from_parts(clock.now().unix_ms(), bits)
}
