//! The inotify backend: watches the relevant folders, and ignores events for other names.

use super::inotify::{Event, Inotify, WatchDescriptor};
use super::sleep::{Wake, sleep};
use super::{RECHECK_DELAY, WaitResult, WatchOptions, mounts, polling};
use crate::tools::Loaded;
use crate::tools::changes::Changes;
use crate::tools::stamp::Stamps;
use crate::tools::walk::{format_of, is_ignored};
use rustix::fs::inotify::ReadFlags;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub struct Events {
    inotify: Inotify,
    root: PathBuf,
    ignore: Option<PathBuf>,
    config: Option<PathBuf>,
    interests: HashMap<WatchDescriptor, Interest>,
    /// The yard itself is missing; no event reports its return, so it is polled.
    root_missing: bool,
    /// Paths that changed since the last load, and paths that cannot be watched.
    changes: Changes,
}

/// Which names in a folder are relevant.
#[derive(Default)]
struct Interest {
    /// The paths that lead to the folder.
    paths: Vec<PathBuf>,
    /// Tool files and folders with more of them.
    tools: bool,
    /// Every name that is not a cache or hidden.
    all: bool,
    /// Input files of tools, existing or not, and the folders that lead to them.
    names: HashSet<OsString>,
}

impl Events {
    pub fn new(root: &Path, options: &WatchOptions) -> io::Result<Events> {
        let inotify = Inotify::new()?;
        let (interests, changes, root) = (HashMap::new(), Changes::Everywhere, root.to_owned());
        let WatchOptions { ignore, config, .. } = options.clone();
        Ok(Events { inotify, root, ignore, config, interests, root_missing: false, changes })
    }

    /// The paths that the next load must check.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Watches the inputs of `loaded` and nothing else; true when a folder is newly watched. The error says
    /// why inotify cannot be used.
    pub fn update_watches(&mut self, loaded: &Loaded) -> Result<bool, String> {
        let (folders, interests) = (HashMap::new(), HashMap::new());
        let mut builder = WatchSetBuilder { events: self, folders, interests, unwatched: Vec::new() };
        let root_missing = builder.folder(&self.root)?.is_none();
        builder.name(&self.root, "tools".as_ref())?;
        if let Some(config) = &self.config {
            builder.files(&Stamps::of(config.clone()))?;
        }
        for folder in &loaded.folders {
            if let Some(interest) = builder.folder(&self.root.join(folder))? {
                interest.tools = true;
            }
        }
        for inputs in &loaded.inputs {
            builder.files(inputs.stamps())?;
        }
        let WatchSetBuilder { interests, unwatched, .. } = builder;
        let more = interests.keys().any(|folder| !self.interests.contains_key(folder));
        for folder in self.interests.keys().filter(|folder| !interests.contains_key(folder)) {
            self.inotify.remove_watch(*folder);
        }
        (self.interests, self.root_missing) = (interests, root_missing);
        // A folder may have changed before it was watched.
        self.changes =
            if more || root_missing { Changes::Everywhere } else { unwatched.into_iter().collect() };
        Ok(more)
    }

    pub fn wait(&mut self, stopped: &UnixStream, due: Option<Duration>) -> WaitResult {
        let end = due.map(|due| Instant::now() + due);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let timeout = if self.root_missing {
                Some(left.map_or(polling::INTERVAL, |left| left.min(polling::INTERVAL)))
            } else {
                left
            };
            match sleep(stopped, Some(self.inotify.as_fd()), timeout) {
                Wake::Stop => return WaitResult::Stop,
                Wake::Timeout if self.root_missing && self.root.exists() => return WaitResult::Changed,
                Wake::Timeout => {}
                Wake::Ready => {
                    // Events of a busy writer are read in batches.
                    if let Wake::Stop = sleep(stopped, None, Some(RECHECK_DELAY)) {
                        return WaitResult::Stop;
                    }
                    match self.drain() {
                        Ok(true) => return WaitResult::Changed,
                        Ok(false) => {}
                        Err(error) => {
                            return WaitResult::BackendFailed(format!("inotify failed ({error})"));
                        }
                    }
                }
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                return WaitResult::Quiet;
            }
        }
    }

    /// Adds relevant events to the changes; true when there were any.
    fn drain(&mut self) -> io::Result<bool> {
        let Events { inotify, interests, changes, .. } = self;
        let mut any = false;
        inotify.drain(|event| {
            // Events may still arrive for a folder whose watch was removed.
            let interest = interests.get(&event.folder);
            if event.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                (any, *changes) = (true, Changes::Everywhere);
            } else if let Some(interest) = interest.filter(|interest| interest.includes(&event)) {
                any = true;
                interest.add_to(changes, event.name);
            }
        })?;
        Ok(any)
    }
}

impl Interest {
    /// An event without a name is about the folder itself: it was removed, or its permissions changed.
    fn includes(&self, event: &Event<'_>) -> bool {
        let (name, folder) = (event.name, event.flags.contains(ReadFlags::ISDIR));
        if name.is_empty() || self.names.contains(name) {
            return true;
        }
        // A name that is not UTF-8 is reported as a problem by the load.
        let Some(text) = name.to_str() else { return self.tools || self.all };
        let tool = if folder { !is_ignored(text) } else { format_of(text).is_some() };
        (self.tools && tool) || (self.all && !is_ignored(text))
    }

    fn add_to(&self, changes: &mut Changes, name: &OsStr) {
        if name.is_empty() {
            *changes = Changes::Everywhere;
        }
        self.paths.iter().for_each(|folder| changes.add(folder.join(name)));
    }
}

/// Collects what to watch after a load.
struct WatchSetBuilder<'e> {
    events: &'e Events,
    folders: HashMap<PathBuf, Option<WatchDescriptor>>,
    interests: HashMap<WatchDescriptor, Interest>,
    /// Paths without a watch: missing, unreadable, in the state folder, outside the yard.
    unwatched: Vec<PathBuf>,
}

impl WatchSetBuilder<'_> {
    fn files(&mut self, stamps: &Stamps) -> Result<(), String> {
        for (path, is_folder) in stamps.paths() {
            if !path.starts_with(&self.events.root) {
                self.unwatched.push(path.to_owned());
                continue;
            }
            if is_folder && let Some(interest) = self.folder(path)? {
                interest.all = true;
            }
            self.path(path)?;
        }
        stamps.targets().iter().try_for_each(|path| self.path(path))
    }

    /// Marks `path` as relevant.
    fn path(&mut self, path: &Path) -> Result<(), String> {
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => self.name(folder, name),
            _ => Ok(()),
        }
    }

    fn name(&mut self, folder: &Path, name: &OsStr) -> Result<(), String> {
        if let Some(interest) = self.folder(folder)?
            && !interest.names.contains(name)
        {
            interest.names.insert(name.to_owned());
        }
        Ok(())
    }

    /// The interest in a folder, which is watched from now on if it exists. Its parents are watched for its
    /// name, because moving a parent causes no event in the folder itself.
    fn folder(&mut self, path: &Path) -> Result<Option<&mut Interest>, String> {
        let watched = match self.folders.get(path) {
            Some(watched) => *watched,
            None => {
                if path != self.events.root && path.starts_with(&self.events.root) {
                    self.path(path)?;
                }
                let watched = self.watch(path)?;
                self.folders.insert(path.to_owned(), watched);
                match watched {
                    Some(watched) => {
                        self.interests.entry(watched).or_default().paths.push(path.to_owned());
                    }
                    None => self.unwatched.push(path.to_owned()),
                }
                watched
            }
        };
        Ok(watched.map(|watched| self.interests.entry(watched).or_default()))
    }

    fn watch(&self, path: &Path) -> Result<Option<WatchDescriptor>, String> {
        if self.events.ignore.as_ref().is_some_and(|ignore| path.starts_with(ignore)) {
            return Ok(None);
        }
        match self.events.inotify.watch(path) {
            Ok(watched) => {
                let new = !self.events.interests.contains_key(&watched);
                match new.then(|| mounts::filesystem_without_events(path)).flatten() {
                    Some(kind) => {
                        Err(format!("{} is on a {kind} mount, which does not report changes", path.display()))
                    }
                    None => Ok(Some(watched)),
                }
            }
            // Missing or unreadable: the watch on the parent reports when that changes.
            Err(error) if is_out_of_reach(&error) && (path != self.events.root || is_missing(&error)) => {
                Ok(None)
            }
            Err(error) => Err(refusal(path, &error)),
        }
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR))
}

fn is_out_of_reach(error: &io::Error) -> bool {
    is_missing(error) || matches!(error.raw_os_error(), Some(libc::EACCES | libc::ELOOP | libc::ENAMETOOLONG))
}

fn refusal(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    match error.raw_os_error() {
        Some(libc::ENOSPC) => {
            format!("{shown} cannot be watched: the limit fs.inotify.max_user_watches is reached")
        }
        _ => format!("{shown} cannot be watched: {error}"),
    }
}
