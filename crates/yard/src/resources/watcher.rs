//! Watches files for subscribers, in a thread of its own. An inotify event only causes a check; a change is
//! reported when the stamp differs, so never twice. Without inotify, files are polled every half second.

use super::file_uri::FilePath;
use super::root::{IfMissing, Root, RootError};
use crate::watch::inotify::{Inotify, WatchDescriptor};
use crate::watch::mounts;
use crate::watch::sleep::{Wake, sleep};
use rustix::fs::inotify::ReadFlags;
use std::collections::HashMap;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// Files that all subscribers together may watch.
const MAX_WATCHED: usize = 10_000;
/// Saving a file often causes several events; it is checked this long after the last one. Longer than the
/// timestamp granularity, so that a change after the check gives another stamp.
const DEBOUNCE: Duration = Duration::from_millis(40);
/// A file that keeps changing is checked this long after the first event.
const MAX_DEBOUNCE: Duration = Duration::from_millis(400);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Watches until it is dropped.
pub struct FileWatcher {
    shared: Arc<Shared>,
    /// Dropping it stops the thread.
    _stop: UnixStream,
}

/// What is watched.
#[derive(Clone)]
pub enum WatchTarget {
    /// A file of a root, existing or not.
    File(Arc<Root>, FilePath),
    /// The names and stamps of the files in a folder directly below a root.
    Folder(Arc<Root>, String),
}

type OnChange = Arc<dyn Fn() + Send + Sync>;

struct Shared {
    /// `None` when inotify is not available.
    inotify: Option<Inotify>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    items: HashMap<u64, WatchEntry>,
    /// Which items use the watch of a folder, so that it is removed with the last one.
    folders: HashMap<WatchDescriptor, Vec<u64>>,
    /// How many items must be polled.
    polled: usize,
}

struct WatchEntry {
    target: WatchTarget,
    stamp: u64,
    folders: Vec<WatchDescriptor>,
    polled: bool,
    on_change: OnChange,
}

/// Ends the watch when it is dropped.
pub struct FileWatch {
    shared: Weak<Shared>,
    id: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("the limit of {MAX_WATCHED} watched files is reached")]
pub struct WatchLimitReached;

impl FileWatcher {
    pub fn start() -> io::Result<FileWatcher> {
        let (stop, stopped) = UnixStream::pair()?;
        let shared = Arc::new(Shared { inotify: Inotify::new().ok(), state: Mutex::default() });
        let for_thread = shared.clone();
        std::thread::Builder::new()
            .name("resource-watch".to_owned())
            .spawn(move || for_thread.run(&stopped))?;
        Ok(FileWatcher { shared, _stop: stop })
    }

    /// `on_change` is called in the watching thread after each change from now on; it must not block.
    pub fn watch(
        &self,
        target: WatchTarget,
        on_change: impl Fn() + Send + Sync + 'static,
    ) -> Result<FileWatch, WatchLimitReached> {
        let mut state = self.shared.lock();
        if state.items.len() >= MAX_WATCHED {
            return Err(WatchLimitReached);
        }
        let id = state.next;
        state.next += 1;
        let item = WatchEntry {
            target,
            stamp: 0,
            folders: Vec::new(),
            polled: false,
            on_change: Arc::new(on_change),
        };
        state.items.insert(id, item);
        self.shared.rescan(&mut state, id);
        drop(state);
        Ok(FileWatch { shared: Arc::downgrade(&self.shared), id })
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = shared.lock();
        shared.unwatch(&mut state, self.id);
        if let Some(item) = state.items.remove(&self.id) {
            state.polled -= usize::from(item.polled);
        }
    }
}

impl Shared {
    fn run(&self, stopped: &UnixStream) {
        // Once inotify failed, every file is polled.
        let mut inotify_failed = false;
        loop {
            let events = self.inotify.as_ref().filter(|_| !inotify_failed);
            let polls = events.is_none() || self.lock().polled > 0;
            match sleep(stopped, events.map(AsFd::as_fd), polls.then_some(POLL_INTERVAL)) {
                Wake::Stop => return,
                Wake::Timeout => self.check_items(None, inotify_failed),
                Wake::Ready => {
                    let mut touched = Vec::new();
                    let first = Instant::now();
                    // Events within this time are one change.
                    while let Some(true) = self.drain(&mut touched, &mut inotify_failed)
                        && first.elapsed() < MAX_DEBOUNCE
                    {
                        if let Wake::Stop = sleep(stopped, None, Some(DEBOUNCE)) {
                            return;
                        }
                    }
                    self.check_items(Some(&touched), inotify_failed);
                }
            }
        }
    }

    /// Adds the items that may have changed to `touched`; true when there were any events.
    fn drain(&self, touched: &mut Vec<u64>, inotify_failed: &mut bool) -> Option<bool> {
        let inotify = self.inotify.as_ref()?;
        let state = self.lock();
        let mut any = false;
        let drained = inotify.drain(|event| {
            any = true;
            if event.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                touched.extend(state.items.keys());
            } else if let Some(items) = state.folders.get(&event.folder) {
                let concerned = items.iter().filter(|id| {
                    let item = state.items.get(id);
                    event.name.is_empty()
                        || item.is_some_and(|item| item.target.is_affected_by(event.name.to_str()))
                });
                touched.extend(concerned);
            }
        });
        *inotify_failed |= drained.is_err();
        Some(any)
    }

    /// Checks these items, or those that are polled, and notifies the subscribers of changes.
    fn check_items(&self, touched: Option<&[u64]>, inotify_failed: bool) {
        let mut state = self.lock();
        let mut ids: Vec<u64> = match touched {
            Some(touched) => touched.to_vec(),
            None => state
                .items
                .iter()
                .filter(|(_, item)| inotify_failed || item.polled)
                .map(|(id, _)| *id)
                .collect(),
        };
        ids.sort_unstable();
        ids.dedup();
        let mut changed = Vec::new();
        for id in ids {
            let before = state.items.get(&id).map(|item| item.stamp);
            self.rescan(&mut state, id);
            if let Some(item) =
                state.items.get(&id).filter(|item| before.is_some_and(|before| before != item.stamp))
            {
                changed.push(item.on_change.clone());
            }
        }
        // Without the lock, because a callback may start another watch.
        drop(state);
        changed.iter().for_each(|on_change| on_change());
    }

    /// Watches the folders that lead to an item, then stamps it, so that a change in between is detected.
    fn rescan(&self, state: &mut State, id: u64) {
        let Some(target) = state.items.get(&id).map(|item| item.target.clone()) else { return };
        let before = state.items.get(&id).map(|item| item.folders.clone()).unwrap_or_default();
        let (folders, polled) = self.folders_of(&target);
        for folder in &folders {
            let users = state.folders.entry(*folder).or_default();
            if !users.contains(&id) {
                users.push(id);
            }
        }
        self.release_folders(state, id, before.iter().filter(|folder| !folders.contains(folder)));
        let stamp = target.stamp();
        if let Some(item) = state.items.get_mut(&id) {
            state.polled = state.polled + usize::from(polled) - usize::from(item.polled);
            (item.folders, item.polled, item.stamp) = (folders, polled, stamp);
        }
    }

    /// The watches of the folders that lead to the target, and whether it must be polled too.
    fn folders_of(&self, target: &WatchTarget) -> (Vec<WatchDescriptor>, bool) {
        let Some(inotify) = &self.inotify else { return (Vec::new(), true) };
        let (root, names) = target.folder_path();
        let mut folders = Vec::new();
        for depth in 0..=names.len() {
            // A missing folder: the watch on its parent reports its creation.
            let Ok(folder) = root.folder(&names[..depth], IfMissing::Fail) else { break };
            match watch(inotify, folder.as_fd()) {
                Some(watched) => folders.push(watched),
                None => return (folders, true),
            }
        }
        (folders, false)
    }

    fn unwatch(&self, state: &mut State, id: u64) {
        let folders = state.items.get(&id).map(|item| item.folders.clone()).unwrap_or_default();
        self.release_folders(state, id, folders.iter());
    }

    fn release_folders<'f>(
        &self,
        state: &mut State,
        id: u64,
        folders: impl Iterator<Item = &'f WatchDescriptor>,
    ) {
        for folder in folders {
            let Some(users) = state.folders.get_mut(folder) else { continue };
            users.retain(|user| *user != id);
            if users.is_empty() {
                state.folders.remove(folder);
                if let Some(inotify) = &self.inotify {
                    inotify.remove_watch(*folder);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// `None` when inotify cannot report every change in the folder.
fn watch(inotify: &Inotify, folder: BorrowedFd<'_>) -> Option<WatchDescriptor> {
    // The /proc path refers to the open folder itself, whatever its name is now.
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    if mounts::filesystem_without_events(Path::new(&path)).is_some() {
        return None;
    }
    inotify.watch(Path::new(&path)).ok()
}

impl WatchTarget {
    /// The root, and the folders below it that lead to the target, including the target if it is a folder.
    fn folder_path(&self) -> (&Root, &[String]) {
        match self {
            WatchTarget::File(root, path) => (root, path.split().0),
            WatchTarget::Folder(root, name) => (root, std::slice::from_ref(name)),
        }
    }

    /// Whether a change of this name, in one of the folders on the way, may be a change of the target.
    fn is_affected_by(&self, name: Option<&str>) -> bool {
        match self {
            WatchTarget::File(_, path) => {
                name.is_some_and(|name| path.names().iter().any(|known| known == name))
            }
            WatchTarget::Folder(..) => true,
        }
    }

    /// A hash that differs after a change.
    fn stamp(&self) -> u64 {
        let mut state = DefaultHasher::new();
        match self {
            WatchTarget::File(root, path) => match root.metadata(path) {
                Ok(meta) => stamp(&meta).hash(&mut state),
                Err(RootError::Missing) => 0.hash(&mut state),
                Err(_) => 1.hash(&mut state),
            },
            WatchTarget::Folder(root, name) => {
                let names = root
                    .folder(std::slice::from_ref(name), IfMissing::Fail)
                    .and_then(|folder| root.names(folder.as_fd(), |_| true));
                for (file, _) in names.unwrap_or_default().names {
                    let path = FilePath::new(vec![name.clone(), file.clone()]);
                    let meta = path.ok().and_then(|path| root.metadata(&path).ok());
                    (file, meta.as_ref().map(stamp)).hash(&mut state);
                }
            }
        }
        state.finish()
    }
}

fn stamp(meta: &Metadata) -> impl Hash {
    let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    (meta.dev(), meta.ino(), meta.len(), times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::root::RootAccess;
    use crate::testing::Folder;
    use std::sync::mpsc;

    struct Watcher {
        folder: Folder,
        watcher: FileWatcher,
        root: Arc<Root>,
    }

    impl Watcher {
        fn new(name: &str) -> Watcher {
            let folder = Folder::new(name);
            let path = folder.path.clone();
            let root = Arc::new(
                Root::open("n", &path, &path.join("state"), RootAccess::default(), 1 << 20).unwrap(),
            );
            Watcher { folder, watcher: FileWatcher::start().unwrap(), root }
        }

        fn watch(&self, path: &str) -> (FileWatch, mpsc::Receiver<()>) {
            let (sender, receiver) = mpsc::channel();
            let target = WatchTarget::File(self.root.clone(), FilePath::plain(path).unwrap());
            (self.watcher.watch(target, move || sender.send(()).unwrap_or(())).unwrap(), receiver)
        }
    }

    const SOON: Duration = Duration::from_secs(5);
    const A_WHILE: Duration = Duration::from_millis(300);

    #[test]
    fn every_way_to_change_a_file_is_reported_once() {
        let here = Watcher::new("events");
        here.folder.write("a/b.txt", "1");
        here.folder.write("a/other.txt", "1");
        let (_guard, events) = here.watch("a/b.txt");
        let path = here.folder.path.clone();
        type Change = fn(&Path);
        let changes: &[(&str, Change)] = &[
            ("written in place", |at| std::fs::write(at.join("a/b.txt"), "2").unwrap()),
            ("replaced", |at| {
                std::fs::write(at.join("a/new"), "3").unwrap();
                std::fs::rename(at.join("a/new"), at.join("a/b.txt")).unwrap();
            }),
            ("removed", |at| std::fs::remove_file(at.join("a/b.txt")).unwrap()),
            ("created again", |at| std::fs::write(at.join("a/b.txt"), "4").unwrap()),
            ("its folder moved away", |at| std::fs::rename(at.join("a"), at.join("z")).unwrap()),
            ("another folder in its place", |at| {
                std::fs::create_dir(at.join("a")).unwrap();
                std::fs::write(at.join("a/b.txt"), "5").unwrap();
            }),
            ("written in the new folder", |at| std::fs::write(at.join("a/b.txt"), "6").unwrap()),
        ];
        for (what, change) in changes {
            change(&path);
            assert_eq!(events.recv_timeout(SOON), Ok(()), "{what}");
            assert!(events.recv_timeout(A_WHILE).is_err(), "{what}: reported twice");
        }
        // Neighbours, reading, and the folder that was moved away are no changes.
        std::fs::write(path.join("a/other.txt"), "2").unwrap();
        std::fs::write(path.join("z/b.txt"), "2").unwrap();
        std::fs::read(path.join("a/b.txt")).unwrap();
        assert!(events.recv_timeout(A_WHILE).is_err());
    }

    #[test]
    fn a_dropped_watch_is_silent_and_leaves_nothing_behind() {
        let here = Watcher::new("dropped");
        here.folder.write("a/b.txt", "1");
        let ((guard, events), (_other, still)) = (here.watch("a/b.txt"), here.watch("a/b.txt"));
        drop(guard);
        here.folder.write("a/b.txt", "22");
        assert_eq!(still.recv_timeout(SOON), Ok(()));
        assert!(events.try_recv().is_err());
        drop(_other);
        let state = here.watcher.shared.lock();
        assert!(state.items.is_empty() && state.folders.is_empty() && state.polled == 0);
    }

    #[test]
    fn without_inotify_files_are_polled() {
        let here = Watcher::new("polled");
        let path = here.folder.write("b.txt", "1");
        let shared = Arc::new(Shared { inotify: None, state: Mutex::default() });
        let (stop, stopped) = UnixStream::pair().unwrap();
        let for_thread = shared.clone();
        std::thread::spawn(move || for_thread.run(&stopped));
        let polling = FileWatcher { shared, _stop: stop };
        let (sender, events) = mpsc::channel();
        let target = WatchTarget::File(here.root.clone(), FilePath::plain("b.txt").unwrap());
        let _guard = polling.watch(target, move || sender.send(()).unwrap_or(())).unwrap();
        std::fs::write(path, "22").unwrap();
        assert_eq!(events.recv_timeout(SOON), Ok(()));
    }
}
