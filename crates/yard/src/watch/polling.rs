//! The polling backend, for where inotify cannot be used.

use super::WaitResult;
use super::sleep::{Wake, sleep};
use crate::tools::{Loader, read_bounded};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

pub const INTERVAL: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Polling {
    /// How the files differed from the loaded state at the last poll.
    last: Option<u64>,
    /// The configuration file as it was before the last load or at the last poll.
    config: Option<Vec<u8>>,
}

impl Polling {
    /// Call before a load, which makes the loaded state equal to the files.
    pub fn reset(&mut self, config: Option<&Path>) {
        (self.last, self.config) = (None, content(config));
    }

    pub fn wait(
        &mut self,
        loader: &Loader,
        config: Option<&Path>,
        stopped: &UnixStream,
        due: Option<Duration>,
    ) -> WaitResult {
        let end = due.map(|due| Instant::now() + due);
        loop {
            let left =
                end.map_or(INTERVAL, |end| end.saturating_duration_since(Instant::now()).min(INTERVAL));
            if let Wake::Stop = sleep(stopped, None, Some(left)) {
                return WaitResult::Stop;
            }
            let (now, config) = (loader.difference(), content(config));
            if now != self.last || config != self.config {
                (self.last, self.config) = (now, config);
                return WaitResult::Changed;
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                return WaitResult::Quiet;
            }
        }
    }
}

/// The file is small, and its stamp would not show a second change within the granularity of its times.
fn content(config: Option<&Path>) -> Option<Vec<u8>> {
    config.and_then(|config| read_bounded(config.parent()?, Path::new(config.file_name()?)).ok())
}
