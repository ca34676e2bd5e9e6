//! Notices changes in a yard and loads it again, in a thread of its own.
//!
//! A change is acted on when the files have been quiet for a moment, so that an editor's way of saving is one
//! change. What a load found decides what is watched next; a folder that is new to the watch is loaded once more,
//! because it may have filled before anyone looked.

mod events;
pub(crate) mod inotify;
pub(crate) mod mounts;
mod polling;
pub(crate) mod sleep;

use crate::tools::changes::Changes;
use crate::tools::{Loaded, Loader};
use events::Events;
use polling::Polling;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Files must have been left alone for so long.
const DEBOUNCE: Duration = Duration::from_millis(75);
/// A yard that is never left alone is loaded this long after a first change.
const MAX_SETTLE_TIME: Duration = Duration::from_millis(500);
/// Before a further load that no change asked for.
const RECHECK_DELAY: Duration = Duration::from_millis(10);
/// The longest wait for files whose times lie in the future.
const MAX_FOLLOW_UP: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Look every half second, even where the system would tell of changes.
    pub polling: bool,
    /// A folder that is never watched: our own state.
    pub ignore: Option<PathBuf>,
}

/// What the watcher tells.
pub enum WatchEvent {
    /// The yard as it is now. Sent at the start, after each change, and whenever that was checked.
    Loaded(Loaded),
    /// The system does not tell of changes, for this reason; they are looked for every half second.
    Polling(String),
}

/// Watches until it is dropped.
pub struct Watcher {
    /// Its end tells the thread to stop.
    _stop: UnixStream,
}

impl Watcher {
    /// `each` is called in the watcher's thread, one call at a time.
    pub fn start(
        loader: Arc<Loader>,
        options: WatchOptions,
        each: impl FnMut(WatchEvent) + Send + 'static,
    ) -> io::Result<Watcher> {
        let (stop, stopped) = UnixStream::pair()?;
        let backend =
            if options.polling { Ok(None) } else { Events::new(&loader.root, options.ignore).map(Some) };
        let mut watch = Watch { loader, backend: WatchBackend::Polling(Polling::default()), stopped, each };
        std::thread::Builder::new().name("yard-watch".to_owned()).spawn(move || {
            match backend {
                Ok(Some(events)) => watch.backend = WatchBackend::Events(events),
                Ok(None) => {}
                Err(error) => watch.fall_back(format!("the system refuses to tell of changes ({error})")),
            }
            watch.run();
        })?;
        Ok(Watcher { _stop: stop })
    }
}

struct Watch<F> {
    loader: Arc<Loader>,
    backend: WatchBackend,
    stopped: UnixStream,
    each: F,
}

enum WatchBackend {
    Events(Events),
    Polling(Polling),
}

/// Why a wait ended.
enum WaitResult {
    Changed,
    /// Nothing happened in the time given.
    Quiet,
    Stop,
    /// Changes can't be told any more.
    BackendFailed(String),
}

impl<F: FnMut(WatchEvent)> Watch<F> {
    fn run(&mut self) {
        let mut pause = Duration::ZERO;
        loop {
            let changes = match &self.backend {
                WatchBackend::Events(events) => events.changes(),
                WatchBackend::Polling(_) => &Changes::Everywhere,
            };
            let loaded = self.loader.load_changes(changes);
            let more = self.update_watches(&loaded);
            pause = pause.max(loaded.unsettled().unwrap_or_default());
            let due = if more { Some(RECHECK_DELAY) } else { loaded.unsettled().map(|_| pause) };
            (self.each)(WatchEvent::Loaded(loaded));
            match self.wait(due) {
                WaitResult::Stop => return,
                // Times in the future stay unsettled for long; don't ask ever again at the same pace.
                WaitResult::Quiet if !more => pause = (pause * 2).min(MAX_FOLLOW_UP),
                WaitResult::Quiet => {}
                WaitResult::BackendFailed(reason) => self.fall_back(reason),
                WaitResult::Changed => {
                    pause = Duration::ZERO;
                    if self.settle() {
                        return;
                    }
                }
            }
        }
    }

    /// Watches what was loaded; true when there may be more to see.
    fn update_watches(&mut self, loaded: &Loaded) -> bool {
        let looked = match &mut self.backend {
            WatchBackend::Events(events) => events.update_watches(loaded),
            WatchBackend::Polling(polling) => {
                polling.reset();
                Ok(false)
            }
        };
        looked.unwrap_or_else(|reason| {
            self.fall_back(reason);
            false
        })
    }

    fn wait(&mut self, due: Option<Duration>) -> WaitResult {
        match &mut self.backend {
            WatchBackend::Events(events) => events.wait(&self.stopped, due),
            WatchBackend::Polling(polling) => polling.wait(&self.loader, &self.stopped, due),
        }
    }

    /// Waits until the files are left alone; true when told to stop.
    fn settle(&mut self) -> bool {
        let first = Instant::now();
        while let Some(left) = MAX_SETTLE_TIME.checked_sub(first.elapsed()) {
            match self.wait(Some(DEBOUNCE.min(left))) {
                WaitResult::Changed => {}
                WaitResult::Quiet => return false,
                WaitResult::Stop => return true,
                WaitResult::BackendFailed(reason) => self.fall_back(reason),
            }
        }
        false
    }

    fn fall_back(&mut self, reason: String) {
        self.backend = WatchBackend::Polling(Polling::default());
        (self.each)(WatchEvent::Polling(reason));
    }
}

impl Loaded {
    /// How long until unchanged files are known to be unchanged; `None` when they are.
    fn unsettled(&self) -> Option<Duration> {
        let now = SystemTime::now();
        let young = self.inputs.iter().filter(|inputs| !inputs.is_reliable());
        young.map(|inputs| inputs.stamps().settles_in(now) + RECHECK_DELAY).max()
    }
}

#[cfg(test)]
mod tests;
