//! The deadline of a dialog: the tool's own time is paused while a question is open, the caller's is not.

use std::time::{Duration, Instant};

pub struct PausableDeadline {
    /// The tool's own deadline, extended by every pause so far.
    own: Instant,
    callers: Option<Instant>,
    paused: Option<Instant>,
    /// Remaining time that it may be paused.
    allowance: Duration,
}

impl PausableDeadline {
    pub fn new(own: Instant, callers: Option<Instant>, allowance: Duration) -> PausableDeadline {
        PausableDeadline { own, callers, paused: None, allowance }
    }

    /// Pauses or resumes the tool's own time.
    pub fn set_waiting(&mut self, waiting: bool, now: Instant) {
        match (self.paused, waiting) {
            (None, true) => self.paused = Some(now),
            (Some(since), false) => {
                let paused_for = now.saturating_duration_since(since).min(self.allowance);
                self.allowance -= paused_for;
                self.own += paused_for;
                self.paused = None;
            }
            _ => {}
        }
    }

    /// The current deadline, if no pause begins or ends before it.
    pub fn deadline(&self) -> Instant {
        let own = if self.paused.is_some() { self.own + self.allowance } else { self.own };
        self.callers.map_or(own, |callers| callers.min(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_add_to_the_tools_time_up_to_the_allowance_and_never_to_the_callers() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut clock = PausableDeadline::new(at(10), None, Duration::from_secs(60));
        assert_eq!(clock.deadline(), at(10));
        clock.set_waiting(true, at(4));
        clock.set_waiting(true, at(5));
        assert_eq!(clock.deadline(), at(70), "it may be paused for the whole allowance");
        clock.set_waiting(false, at(24));
        assert_eq!(clock.deadline(), at(30));
        clock.set_waiting(false, at(25));
        clock.set_waiting(true, at(26));
        assert_eq!(clock.deadline(), at(70));
        clock.set_waiting(false, at(69));
        assert_eq!(clock.deadline(), at(70), "no more than the allowance");
        let mut clock = PausableDeadline::new(at(10), Some(at(12)), Duration::from_secs(60));
        clock.set_waiting(true, at(1));
        assert_eq!(clock.deadline(), at(12));
    }
}
