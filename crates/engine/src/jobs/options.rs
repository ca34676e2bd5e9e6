//! Limits and retention of jobs.

use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::{JobState, Timing};

#[derive(Clone, Debug)]
pub struct Options {
    /// Unfinished jobs in the store.
    pub max_open: u64,
    pub max_open_of_caller: u64,
    /// Jobs that run concurrently in this process.
    pub max_running: usize,
    pub max_running_of_caller: usize,
    /// Retention of completed jobs whose caller waits for the result.
    pub keep_short: Duration,
    /// Retention of completed jobs whose caller fetches the result later.
    pub keep_long: Duration,
    /// Retention of jobs that failed, were cancelled, or whose outcome is unknown.
    pub keep_failed: Duration,
    /// How often processes may die while they run a job, before it is not started again.
    pub max_attempts: usize,
    /// How often dead processes, cancel requests and expired jobs are checked.
    pub maintenance_interval: Duration,
}

/// Options that can be replaced while jobs run; clones share them.
#[derive(Clone)]
pub struct SharedOptions(Arc<ArcSwap<Options>>);

impl SharedOptions {
    pub fn load(&self) -> Guard<Arc<Options>> {
        self.0.load()
    }

    /// For jobs submitted or finished from now on. The limits of running jobs stay as they were at the start.
    pub fn replace(&self, options: Options) {
        self.0.store(Arc::new(options));
    }
}

impl From<Options> for SharedOptions {
    fn from(options: Options) -> SharedOptions {
        SharedOptions(Arc::new(ArcSwap::from_pointee(options)))
    }
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
            max_attempts: 5,
            maintenance_interval: Duration::from_secs(1),
        }
    }
}

impl Options {
    /// How long a finished job is kept.
    pub fn retention(&self, timing: Timing, state: JobState) -> Duration {
        match (state, timing) {
            (JobState::Complete, Timing::Sync | Timing::AsyncShort | Timing::AsyncMedium) => self.keep_short,
            (JobState::Complete, Timing::AsyncLong | Timing::FireAndForget) => self.keep_long,
            _ => self.keep_failed,
        }
    }
}
