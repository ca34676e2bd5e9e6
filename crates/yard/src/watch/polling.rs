//! Looks for changes itself, where nobody tells of them.

use super::WaitResult;
use super::sleep::{Wake, sleep};
use crate::tools::Loader;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

pub const EVERY: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Polling {
    /// How the files differed from what is loaded when they were last looked at.
    last: Option<u64>,
}

impl Polling {
    /// What is loaded is what there is.
    pub fn reset(&mut self) {
        self.last = None;
    }

    pub fn wait(&mut self, loader: &Loader, stopped: &UnixStream, due: Option<Duration>) -> WaitResult {
        let end = due.map(|due| Instant::now() + due);
        loop {
            let left = end.map_or(EVERY, |end| end.saturating_duration_since(Instant::now()).min(EVERY));
            if let Wake::Stop = sleep(stopped, None, Some(left)) {
                return WaitResult::Stop;
            }
            let now = loader.difference();
            if now != self.last {
                self.last = now;
                return WaitResult::Changed;
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                return WaitResult::Quiet;
            }
        }
    }
}
