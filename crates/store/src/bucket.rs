//! A token bucket in storable form: two timestamps; the rate is passed with each call.

use std::time::Duration;
use toolyard_protocol::{Rate, Timestamp};

/// Backward steps of the clock up to this size are skew between processes; beyond it, the clock was set back.
const MAX_CLOCK_SKEW: i64 = 1_000_000_000;

/// Full buckets evicted when a bucket is added: more than one, so that their number shrinks.
pub const EVICT_BATCH: usize = 16;

/// Times are nanoseconds since 1970. A full bucket is equivalent to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBucket {
    /// When `take` was last called.
    pub asked: i64,
    /// When it will be full again if nothing more is taken.
    pub full: i64,
}

impl StoredBucket {
    pub fn full_at(now: Timestamp) -> StoredBucket {
        StoredBucket { asked: nanos(now), full: nanos(now) }
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.full <= nanos(now)
    }

    /// Takes a token, or returns how long to wait for one.
    pub fn take(&mut self, rate: Rate, now: Timestamp) -> Option<Duration> {
        let clock = nanos(now);
        let now = self.adjust_clock(clock);
        // Rounded up, so that rounding never allows more calls than the rate.
        let per = i64::try_from(rate.per.as_nanos()).unwrap_or(i64::MAX);
        let each = per.saturating_add(i64::from(rate.calls) - 1) / i64::from(rate.calls.max(1));
        let capacity = each.saturating_mul(i64::from(rate.calls));
        // A bucket stored under a slower rate counts as empty at worst.
        let missing = (self.full - now).clamp(0, capacity);
        let over = missing + each - capacity;
        if over > 0 {
            self.full = now + missing;
            return Some(Duration::from_nanos(over.saturating_add(now - clock).unsigned_abs()));
        }
        self.full = now + missing + each;
        None
    }

    /// The effective time. If the clock was set back, shifts the bucket so that its fill level is unchanged.
    fn adjust_clock(&mut self, clock: i64) -> i64 {
        let back = self.asked - clock;
        if back > MAX_CLOCK_SKEW {
            self.full -= back;
            self.asked = clock;
        }
        self.asked = self.asked.max(clock);
        self.asked
    }
}

/// Clamped to the year 2200, so that nothing overflows.
pub fn nanos(at: Timestamp) -> i64 {
    const LAST_MS: u64 = 7_258_118_400_000;
    at.unix_ms().min(LAST_MS) as i64 * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    fn rate(calls: u32, ms: u64) -> Rate {
        Rate { calls, per: Duration::from_millis(ms) }
    }

    #[test]
    fn a_slower_rate_of_before_is_no_longer_waited_for() {
        let mut bucket = StoredBucket::full_at(at(0));
        assert_eq!(bucket.take(rate(1, 3_600_000), at(0)), None);
        assert_eq!(bucket.take(rate(10, 1000), at(0)), Some(Duration::from_millis(100)));
    }

    #[test]
    fn extremes_neither_overflow_nor_give_more() {
        let year = Duration::from_secs(366 * 24 * 60 * 60);
        for per in [Duration::from_nanos(1), year] {
            for calls in [1, u32::MAX] {
                let mut bucket = StoredBucket::full_at(at(u64::MAX));
                assert_eq!(bucket.take(Rate { calls, per }, at(u64::MAX)), None);
                assert_eq!(bucket.take(Rate { calls, per }, at(u64::MAX)).is_some(), calls == 1);
                let _ = bucket.take(Rate { calls, per }, at(0));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// Never more calls than a full bucket plus its refill; after the returned wait there is a token.
        #[test]
        fn the_rate_holds_and_the_wait_is_true(
            calls in 1u32..20, per in 1u64..5000, steps in prop::collection::vec(0u64..400, 1..80),
        ) {
            let rate = rate(calls, per);
            let (mut bucket, mut now, mut taken) = (StoredBucket::full_at(at(0)), 0u64, 0u64);
            for step in steps {
                now += step;
                match bucket.take(rate, at(now)) {
                    None => taken += 1,
                    Some(wait) => {
                        let later = now + wait.as_nanos().div_ceil(1_000_000) as u64;
                        prop_assert!(later > now);
                        prop_assert_eq!(bucket.clone().take(rate, at(later)), None);
                        prop_assert!(bucket.clone().take(rate, at(later - 1)).is_some());
                    }
                }
                prop_assert!(taken <= u64::from(calls) + now * u64::from(calls) / per);
            }
        }

        /// A clock that stands still or goes back adds no tokens.
        #[test]
        fn going_back_gives_nothing(calls in 1u32..20, backs in prop::collection::vec(0u64..5000, 30..60)) {
            let rate = rate(calls, 60_000);
            let (mut bucket, mut now, mut taken) = (StoredBucket::full_at(at(1 << 30)), 1u64 << 30, 0);
            for back in backs {
                now -= back;
                taken += u32::from(bucket.take(rate, at(now)).is_none());
            }
            prop_assert_eq!(taken, calls);
        }
    }
}
