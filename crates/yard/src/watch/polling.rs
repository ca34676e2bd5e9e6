//! The polling backend, for where inotify cannot be used.

use super::WaitResult;
use super::sleep::{Wake, sleep};
use crate::tools::Loader;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

pub const INTERVAL: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Polling {
    /// How the files differed from the loaded state at the last poll.
    last: Option<u64>,
}

impl Polling {
    /// Call after a load: the files equal the loaded state.
    pub fn reset(&mut self) {
        self.last = None;
    }

    pub fn wait(&mut self, loader: &Loader, stopped: &UnixStream, due: Option<Duration>) -> WaitResult {
        let end = due.map(|due| Instant::now() + due);
        loop {
            let left =
                end.map_or(INTERVAL, |end| end.saturating_duration_since(Instant::now()).min(INTERVAL));
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
