//! A stamp of the secrets folder, including permissions, to detect that it must be read again.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub struct FolderStamp {
    files: Vec<(PathBuf, Option<FileStamp>)>,
    /// All files were older than a file system's clock tick; otherwise a second change could be missed.
    settled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    /// ctime, which programs cannot set and which also changes with permissions.
    changed: (i64, i64),
}

const TICK: Duration = Duration::from_millis(50);

impl FolderStamp {
    pub fn at(paths: impl IntoIterator<Item = PathBuf>) -> FolderStamp {
        let files: Vec<_> = paths.into_iter().map(|path| (path.clone(), FileStamp::of(&path))).collect();
        let settled = files.iter().all(|(_, stamp)| stamp.is_none_or(|stamp| stamp.is_older_than(TICK)));
        FolderStamp { files, settled }
    }

    pub fn is_current(&self) -> bool {
        self.settled && self.files.iter().all(|(path, stamp)| FileStamp::of(path) == *stamp)
    }
}

impl FileStamp {
    fn of(path: &Path) -> Option<FileStamp> {
        let meta = std::fs::symlink_metadata(path).ok()?;
        Some(FileStamp { inode: meta.ino(), changed: (meta.ctime(), meta.ctime_nsec()) })
    }

    fn is_older_than(&self, age: Duration) -> bool {
        let since = Duration::new(self.changed.0.max(0) as u64, self.changed.1.max(0) as u32);
        // A ctime in the future means that the clock was changed; treated as too new.
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since).is_ok_and(|passed| passed >= age)
    }
}
