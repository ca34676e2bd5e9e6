//! The bounds of jobs, and how long they are remembered.

use std::time::Duration;
use toolyard_protocol::{JobState, Timing};

#[derive(Clone, Debug)]
pub struct Options {
    /// Jobs that are not over, on disk.
    pub max_open: u64,
    pub max_open_of_caller: u64,
    /// Jobs that run in this process at once.
    pub max_running: usize,
    pub max_running_of_caller: usize,
    /// Completed jobs whose caller waits for the result.
    pub keep_short: Duration,
    /// Completed jobs whose caller comes back for the result.
    pub keep_long: Duration,
    /// Jobs that failed, were cancelled, or whose fate is unknown.
    pub keep_failed: Duration,
    /// How often dead processes, wishes and expired jobs are looked for.
    pub maintenance_interval: Duration,
}

impl Default for Options {
    fn default() -> Options {
        let hour = Duration::from_secs(3600);
        Options {
            max_open: 100_000,
            max_open_of_caller: 10_000,
            max_running: 256,
            max_running_of_caller: 64,
            keep_short: hour,
            keep_long: 24 * hour,
            keep_failed: 7 * 24 * hour,
            maintenance_interval: Duration::from_secs(1),
        }
    }
}

impl Options {
    /// How long a job is kept after its end.
    pub fn retention(&self, timing: Timing, state: JobState) -> Duration {
        match (state, timing) {
            (JobState::Complete, Timing::Sync | Timing::AsyncShort | Timing::AsyncMedium) => self.keep_short,
            (JobState::Complete, Timing::AsyncLong | Timing::FireAndForget) => self.keep_long,
            _ => self.keep_failed,
        }
    }
}
