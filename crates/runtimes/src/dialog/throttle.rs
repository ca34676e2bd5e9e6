//! Rate limit for progress: excess updates are dropped, but the last one is always delivered.

use std::time::{Duration, Instant};
use toolyard_protocol::Progress;

/// Updates that pass at once; after that, one per interval.
const BURST: u32 = 10;
const INTERVAL: Duration = Duration::from_millis(50);

pub struct ProgressThrottle {
    /// When the next update would be due without bursts.
    next: Instant,
    pending: Option<Progress>,
}

impl ProgressThrottle {
    pub fn new(now: Instant) -> ProgressThrottle {
        ProgressThrottle { next: now, pending: None }
    }

    /// Takes an update; returns it if it may pass now.
    pub fn offer(&mut self, progress: Progress, now: Instant) -> Option<Progress> {
        self.pending = Some(progress);
        self.due(now)
    }

    /// The pending update, once it is due.
    pub fn due(&mut self, now: Instant) -> Option<Progress> {
        if self.next_wake().is_none_or(|at| at > now) {
            return None;
        }
        self.next = self.next.max(now) + INTERVAL;
        self.pending.take()
    }

    /// When the pending update is due; `None` if nothing is pending.
    pub fn next_wake(&self) -> Option<Instant> {
        let early = INTERVAL * (BURST - 1);
        self.pending.as_ref().map(|_| self.next.checked_sub(early).unwrap_or(self.next))
    }

    /// The pending update, due or not; for the end of the run.
    pub fn take_pending(&mut self) -> Option<Progress> {
        self.pending.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_limited_to_twenty_a_second_and_the_last_update_is_delivered() {
        let start = Instant::now() + Duration::from_secs(100);
        let mut throttle = ProgressThrottle::new(start);
        let mut passed = Vec::new();
        for i in 0..2000u32 {
            let now = start + Duration::from_millis(u64::from(i));
            let progress = Progress { done: f64::from(i), total: None, message: None };
            passed.extend(throttle.offer(progress, now).map(|progress| progress.done));
        }
        assert_eq!(passed[..10], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        assert!((45..=52).contains(&passed.len()), "{} in two seconds", passed.len());
        assert!(passed.is_sorted());
        assert_eq!(throttle.take_pending().map(|progress| progress.done), Some(1999.0));
        assert_eq!((throttle.take_pending(), throttle.next_wake()), (None, None));
    }

    #[test]
    fn a_pending_update_is_delivered_when_it_is_due() {
        let start = Instant::now() + Duration::from_secs(100);
        let mut throttle = ProgressThrottle::new(start);
        let progress = |done| Progress { done, total: None, message: None };
        (0..10).for_each(|i| assert!(throttle.offer(progress(f64::from(i)), start).is_some()));
        assert_eq!(throttle.offer(progress(10.0), start), None);
        let wakes = throttle.next_wake().unwrap();
        assert!(wakes > start && wakes <= start + INTERVAL);
        assert_eq!(throttle.due(start), None);
        assert_eq!(throttle.due(wakes), Some(progress(10.0)));
    }
}
