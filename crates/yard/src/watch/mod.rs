//! Watches a yard and reloads it on change, in a thread of its own.
//!
//! Changes are debounced, so that an editor's several writes cause one reload. Each load determines what is
//! watched next; a newly watched folder causes one more load, because it may have changed before the watch.

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

/// Time without further changes before a reload.
const DEBOUNCE: Duration = Duration::from_millis(75);
/// A yard that keeps changing is loaded this long after the first change.
const MAX_SETTLE_TIME: Duration = Duration::from_millis(500);
/// Delay before a load that no change caused.
const RECHECK_DELAY: Duration = Duration::from_millis(10);
/// Longest delay between rechecks of files whose timestamps are in the future.
const MAX_FOLLOW_UP: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Poll every half second instead of using inotify.
    pub polling: bool,
    /// A folder that is never watched: the state folder.
    pub ignore: Option<PathBuf>,
    /// A file directly in the yard whose change causes a load too: the configuration.
    pub config: Option<PathBuf>,
}

/// What the watcher reports.
pub enum WatchEvent {
    /// A load follows, which uses the settings that the loader has after this.
    Loading,
    /// The yard as it is now: sent at the start, after each change and after each recheck.
    Loaded(Loaded),
    /// inotify cannot be used, for this reason; the watcher polls every half second.
    Polling(String),
}

/// Watches until it is dropped.
pub struct Watcher {
    /// Dropping it stops the thread.
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
        let backend = if options.polling { Ok(None) } else { Events::new(&loader.root, &options).map(Some) };
        let config = options.config;
        let backend_so_far = WatchBackend::Polling(Polling::default());
        let mut watch = Watch { loader, config, backend: backend_so_far, stopped, each };
        std::thread::Builder::new().name("yard-watch".to_owned()).spawn(move || {
            match backend {
                Ok(Some(events)) => watch.backend = WatchBackend::Events(events),
                Ok(None) => {}
                Err(error) => watch.fall_back(format!("inotify is not available ({error})")),
            }
            watch.run();
        })?;
        Ok(Watcher { _stop: stop })
    }
}

struct Watch<F> {
    loader: Arc<Loader>,
    config: Option<PathBuf>,
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
    /// The backend cannot report changes any more.
    BackendFailed(String),
}

impl<F: FnMut(WatchEvent)> Watch<F> {
    fn run(&mut self) {
        let mut pause = Duration::ZERO;
        loop {
            if let WatchBackend::Polling(polling) = &mut self.backend {
                polling.reset(self.config.as_deref());
            }
            (self.each)(WatchEvent::Loading);
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
                // Timestamps in the future stay unsettled for long: back off.
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

    /// Watches what was loaded; true when a newly watched folder requires another load.
    fn update_watches(&mut self, loaded: &Loaded) -> bool {
        let looked = match &mut self.backend {
            WatchBackend::Events(events) => events.update_watches(loaded),
            WatchBackend::Polling(_) => Ok(false),
        };
        looked.unwrap_or_else(|reason| {
            self.fall_back(reason);
            false
        })
    }

    fn wait(&mut self, due: Option<Duration>) -> WaitResult {
        match &mut self.backend {
            WatchBackend::Events(events) => events.wait(&self.stopped, due),
            WatchBackend::Polling(polling) => {
                polling.wait(&self.loader, self.config.as_deref(), &self.stopped, due)
            }
        }
    }

    /// Waits until no further change arrives; true when the watcher is stopped.
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
    /// How long until equal stamps prove that files are unchanged; `None` when they already do.
    fn unsettled(&self) -> Option<Duration> {
        let now = SystemTime::now();
        let young = self.inputs.iter().filter(|inputs| !inputs.is_reliable());
        young.map(|inputs| inputs.stamps().settles_in(now) + RECHECK_DELAY).max()
    }
}

#[cfg(test)]
mod tests;
