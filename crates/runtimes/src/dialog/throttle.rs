//! Progress at a rate that callers can follow: of a flood only the newest, but always the last.

use std::time::{Duration, Instant};
use toolyard_protocol::Progress;

/// So many go through at once; after that one for each pause.
const BURST: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

pub struct ProgressThrottle {
    /// When the next one would be due if none had ever come early.
    next: Instant,
    pending: Option<Progress>,
}

impl ProgressThrottle {
    pub fn new(now: Instant) -> ProgressThrottle {
        ProgressThrottle { next: now, pending: None }
    }

    /// The one to pass on now, if it is not too early.
    pub fn offer(&mut self, progress: Progress, now: Instant) -> Option<Progress> {
        self.pending = Some(progress);
        self.due(now)
    }

    /// The one that was pending, once its time has come.
    pub fn due(&mut self, now: Instant) -> Option<Progress> {
        if self.next_wake().is_none_or(|at| at > now) {
            return None;
        }
        self.next = self.next.max(now) + PAUSE;
        self.pending.take()
    }

    /// When to ask for it; `None` when nothing is pending.
    pub fn next_wake(&self) -> Option<Instant> {
        let early = PAUSE * (BURST - 1);
        self.pending.as_ref().map(|_| self.next.checked_sub(early).unwrap_or(self.next))
    }

    /// The one that was pending, early or not: nothing comes after it.
    pub fn take_pending(&mut self) -> Option<Progress> {
        self.pending.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_thinned_to_twenty_a_second_and_the_last_one_comes_through() {
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
    fn one_that_was_held_is_passed_on_when_its_time_comes() {
        let start = Instant::now() + Duration::from_secs(100);
        let mut throttle = ProgressThrottle::new(start);
        let progress = |done| Progress { done, total: None, message: None };
        (0..10).for_each(|i| assert!(throttle.offer(progress(f64::from(i)), start).is_some()));
        assert_eq!(throttle.offer(progress(10.0), start), None);
        let wakes = throttle.next_wake().unwrap();
        assert!(wakes > start && wakes <= start + PAUSE);
        assert_eq!(throttle.due(start), None);
        assert_eq!(throttle.due(wakes), Some(progress(10.0)));
    }
}
