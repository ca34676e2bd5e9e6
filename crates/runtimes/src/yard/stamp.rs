//! What a file looked like when it was read, to notice later that it changed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The files (and folders) a tool is made of, as they were.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    files: Vec<(PathBuf, Option<Stamp>)>,
    /// A file was written so shortly before it was looked at that a second write may leave the same stamp.
    racy: bool,
}

/// `ctime` can't be set by programs, so that tools which preserve times don't fool us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Coarser than any clock tick that file systems stamp with.
const RACE: Duration = Duration::from_millis(50);

impl Stamps {
    /// Take the stamp before reading the file: a change in between then shows.
    pub fn add(&mut self, path: PathBuf) {
        let stamp = Stamp::of(&path);
        self.racy |= stamp.is_some_and(|stamp| stamp.is_younger_than(RACE));
        self.files.push((path, stamp));
    }

    pub fn is_unchanged(&self) -> bool {
        self.files.iter().all(|(path, stamp)| Stamp::of(path) == *stamp)
    }

    /// Whether an equal stamp proves equal content.
    #[allow(dead_code, reason = "the reload that asks this is being written")]
    pub fn is_reliable(&self) -> bool {
        !self.racy
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Stamp {
            inode: meta.ino(),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }

    fn is_younger_than(&self, age: Duration) -> bool {
        let changed = SystemTime::UNIX_EPOCH
            + Duration::new(self.changed.0.max(0) as u64, self.changed.1.max(0) as u32);
        // A change in the future is a clock that jumped; nothing can be said then.
        SystemTime::now().duration_since(changed).map_or(true, |since| since < age)
    }
}
