//! Lets the system tell of changes: watches every folder that matters, and heeds only names that matter.

use super::inotify::{Event, Inotify, Watched};
use super::sleep::{Wake, sleep};
use super::{Hint, SOON, mounts, polling};
use crate::yard::Loaded;
use crate::yard::walk::{format_of, is_left_out};
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
    interests: HashMap<Watched, Interest>,
    /// The yard itself is gone; nobody will tell when it comes back.
    homeless: bool,
}

/// What matters in a folder.
#[derive(Default)]
struct Interest {
    /// Tool files and folders with more of them.
    tools: bool,
    /// Every name that is not a cache or hidden.
    all: bool,
    /// Files that tools are made of, there or not, and the folders on the way to them.
    names: HashSet<OsString>,
}

impl Events {
    pub fn new(root: &Path, ignore: Option<PathBuf>) -> io::Result<Events> {
        let inotify = Inotify::new()?;
        Ok(Events { inotify, root: root.to_owned(), ignore, interests: HashMap::new(), homeless: false })
    }

    /// Watches what `loaded` was made of and nothing else; true when a folder is new to the watch. An error says
    /// why changes can't be told.
    pub fn look_at(&mut self, loaded: &Loaded) -> Result<bool, String> {
        let mut survey = Survey { events: self, folders: HashMap::new(), interests: HashMap::new() };
        let homeless = survey.folder(&self.root)?.is_none();
        survey.name(&self.root, "tools".as_ref())?;
        for folder in &loaded.folders {
            if let Some(interest) = survey.folder(&self.root.join(folder))? {
                interest.tools = true;
            }
        }
        for made in &loaded.made {
            survey.files(made.stamps())?;
        }
        let interests = survey.interests;
        let more = interests.keys().any(|folder| !self.interests.contains_key(folder));
        for folder in self.interests.keys().filter(|folder| !interests.contains_key(folder)) {
            self.inotify.forget(*folder);
        }
        (self.interests, self.homeless) = (interests, homeless);
        Ok(more)
    }

    pub fn wait(&mut self, stopped: &UnixStream, due: Option<Duration>) -> Hint {
        let end = due.map(|due| Instant::now() + due);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let nap = if self.homeless {
                Some(left.map_or(polling::EVERY, |left| left.min(polling::EVERY)))
            } else {
                left
            };
            match sleep(stopped, Some(self.inotify.as_fd()), nap) {
                Wake::Stop => return Hint::Stop,
                Wake::Timeout if self.homeless && self.root.exists() => return Hint::Changed,
                Wake::Timeout => {}
                Wake::Ready => {
                    // A busy writer must not keep us busy: what it does in this time is read at once.
                    if let Wake::Stop = sleep(stopped, None, Some(SOON)) {
                        return Hint::Stop;
                    }
                    match self.drain() {
                        Ok(true) => return Hint::Changed,
                        Ok(false) => {}
                        Err(error) => {
                            return Hint::Blind(format!("the system stopped telling of changes ({error})"));
                        }
                    }
                }
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                return Hint::Quiet;
            }
        }
    }

    /// Whether anything of what happened matters.
    fn drain(&self) -> io::Result<bool> {
        let mut matters = false;
        self.inotify.drain(|event| matters |= self.matters(&event))?;
        Ok(matters)
    }

    fn matters(&self, event: &Event<'_>) -> bool {
        if event.mask & libc::IN_Q_OVERFLOW != 0 {
            return true;
        }
        // Folders that were forgotten may still have events under way.
        self.interests
            .get(&event.folder)
            .is_some_and(|interest| interest.includes(event.name, event.mask & libc::IN_ISDIR != 0))
    }
}

impl Interest {
    /// An event without a name is about the folder itself: it went, or its rights changed.
    fn includes(&self, name: &OsStr, folder: bool) -> bool {
        if name.is_empty() || self.names.contains(name) {
            return true;
        }
        // A name that is not UTF-8 is a problem to report.
        let Some(text) = name.to_str() else { return self.tools || self.all };
        let tool = if folder { !is_left_out(text) } else { format_of(text).is_some() };
        (self.tools && tool) || (self.all && !is_left_out(text))
    }
}

/// One round of finding out what to watch.
struct Survey<'e> {
    events: &'e Events,
    folders: HashMap<PathBuf, Option<Watched>>,
    interests: HashMap<Watched, Interest>,
}

impl Survey<'_> {
    fn files(&mut self, stamps: &crate::yard::stamp::Stamps) -> Result<(), String> {
        for (path, is_folder) in stamps.paths().filter(|(path, _)| path.starts_with(&self.events.root)) {
            if is_folder && let Some(interest) = self.folder(path)? {
                interest.all = true;
            }
            self.path(path)?;
        }
        stamps.targets().iter().try_for_each(|path| self.path(path))
    }

    /// What stands at `path` matters.
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

    /// The interest in a folder, which is watched from now on if it is there. Folders above it matter by its name:
    /// nobody tells a folder that one above it was moved away.
    fn folder(&mut self, path: &Path) -> Result<Option<&mut Interest>, String> {
        let watched = match self.folders.get(path) {
            Some(watched) => *watched,
            None => {
                if path != self.events.root && path.starts_with(&self.events.root) {
                    self.path(path)?;
                }
                let watched = self.watch(path)?;
                self.folders.insert(path.to_owned(), watched);
                watched
            }
        };
        Ok(watched.map(|watched| self.interests.entry(watched).or_default()))
    }

    fn watch(&self, path: &Path) -> Result<Option<Watched>, String> {
        if self.events.ignore.as_ref().is_some_and(|ignore| path.starts_with(ignore)) {
            return Ok(None);
        }
        match self.events.inotify.watch(path) {
            Ok(watched) => {
                let new = !self.events.interests.contains_key(&watched);
                match new.then(|| mounts::silent(path)).flatten() {
                    Some(kind) => Err(format!(
                        "{} is on a {kind} mount, which does not tell of changes",
                        path.display()
                    )),
                    None => Ok(Some(watched)),
                }
            }
            // Not there, or not ours to read. The folder above tells when that changes.
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
