//! Stamps of files (inode, size, times), taken before reading, to detect later changes.

use super::walk::is_ignored;
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fs::Metadata;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The stamps of a tool's input files and folders, taken before they were read.
#[derive(Debug, Default)]
pub struct Stamps {
    files: BTreeMap<PathBuf, Option<Stamp>>,
    /// The targets of symbolic links among them; those are watched too.
    targets: Vec<PathBuf>,
    /// One of them is a symbolic link or has several hard links, so that it may change without an event.
    aliased: bool,
    /// A file was written so shortly before it was stamped that a second write may leave the same stamp.
    racy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stamp {
    /// `ctime` cannot be set by programs, so a change shows even when `mtime` was preserved.
    File { inode: u64, size: u64, modified: (i64, i64), changed: (i64, i64) },
    /// Hash of its names. Its times would change with every temporary file.
    Folder { names: u64 },
}

/// Longer than the timestamp granularity of usual file systems.
const RACE: Duration = Duration::from_millis(50);
/// For file systems that store whole seconds only.
const COARSE_RACE: Duration = Duration::from_millis(2050);
/// Names of a folder that are hashed.
const MAX_NAMES: usize = 20_000;

impl Stamps {
    pub fn of(path: PathBuf) -> Stamps {
        let mut stamps = Stamps::default();
        stamps.add(path);
        stamps
    }

    /// Call it before reading the file, so that a change in between is detected. A path added twice keeps its
    /// first stamp. A missing path may be added too; its creation is a change.
    pub fn add(&mut self, path: PathBuf) {
        let path = normalize(&path);
        if self.files.contains_key(&path) {
            return;
        }
        if let Ok(meta) = std::fs::symlink_metadata(&path) {
            self.aliased |= meta.is_symlink() || (meta.is_file() && meta.nlink() > 1);
            if meta.is_symlink() {
                self.targets.extend(std::fs::canonicalize(&path));
            }
        }
        let stamp = Stamp::of(&path);
        self.racy |= stamp.is_some_and(|stamp| !stamp.settles_in(SystemTime::now()).is_zero());
        self.files.insert(path, stamp);
    }

    /// The path did not exist when it was read, whatever its stamp says: a parent folder that is moved away
    /// and back leaves the stamp unchanged.
    pub fn missing(&mut self, path: PathBuf) {
        self.files.insert(normalize(&path), None);
    }

    pub fn is_unchanged(&self) -> bool {
        self.files.iter().all(|(path, stamp)| Stamp::of(path) == *stamp)
    }

    /// Differs after a change that was undone and so left the stamps equal: a missing file that was created
    /// and removed, a folder that held another name for a while.
    pub fn folder_fingerprint(&self) -> u64 {
        let mut state = DefaultHasher::new();
        for (path, stamp) in &self.files {
            let folder = match stamp {
                Some(Stamp::File { .. }) => continue,
                Some(Stamp::Folder { .. }) => std::fs::metadata(path).ok(),
                None => path.ancestors().skip(1).find_map(|folder| std::fs::metadata(folder).ok()),
            };
            folder.map(|meta| Stamp::file(&meta)).hash(&mut state);
        }
        state.finish()
    }

    /// Whether nothing changed; hashes the current stamp of every path into `state`.
    pub fn compare(&self, state: &mut impl Hasher) -> bool {
        self.files.iter().fold(true, |same, (path, stamp)| {
            let now = Stamp::of(path);
            now.hash(state);
            same & (now == *stamp)
        })
    }

    /// Whether an equal stamp proves equal content.
    pub fn is_reliable(&self) -> bool {
        !self.racy
    }

    /// How long until equal stamps prove equal content, if the files stay as they are.
    pub fn settles_in(&self, now: SystemTime) -> Duration {
        self.files.values().flatten().map(|stamp| stamp.settles_in(now)).max().unwrap_or_default()
    }

    /// Every path, with whether it is a folder.
    pub fn paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.files.iter().map(|(path, stamp)| (path.as_path(), matches!(stamp, Some(Stamp::Folder { .. }))))
    }

    pub fn targets(&self) -> &[PathBuf] {
        &self.targets
    }

    /// Whether a file may change without an event.
    pub fn is_aliased(&self) -> bool {
        self.aliased
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let meta = std::fs::metadata(path).ok()?;
        Some(if meta.is_dir() { Stamp::folder(path) } else { Stamp::file(&meta) })
    }

    fn file(meta: &Metadata) -> Stamp {
        Stamp::File {
            inode: meta.ino(),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    fn folder(path: &Path) -> Stamp {
        let names =
            std::fs::read_dir(path).into_iter().flatten().take(MAX_NAMES).flatten().map(|e| e.file_name());
        let names = names.filter(|name| !is_ignored(&name.to_string_lossy())).map(|name| {
            let mut hasher = DefaultHasher::new();
            name.hash(&mut hasher);
            hasher.finish()
        });
        // A sum, because the order of folder entries is not defined.
        Stamp::Folder { names: names.fold(0, u64::wrapping_add) }
    }

    /// Zero once a further change would give another stamp.
    fn settles_in(&self, now: SystemTime) -> Duration {
        // Names are compared, not times.
        let Stamp::File { modified, changed, .. } = self else { return Duration::ZERO };
        let race = if (modified.1, changed.1) == (0, 0) { COARSE_RACE } else { RACE };
        let at = SystemTime::UNIX_EPOCH + Duration::new(changed.0.max(0) as u64, changed.1.max(0) as u32);
        // A time in the future means that the clock jumped, so the stamp proves nothing.
        now.duration_since(at).map_or(race, |age| race.saturating_sub(age))
    }
}

/// Without `.` and doubled slashes, so that paths compare by their bytes.
fn normalize(path: &Path) -> PathBuf {
    path.components().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[test]
    fn every_way_to_change_a_file_shows() {
        let folder = Folder::new("stamps");
        let path = folder.write("a", "one");
        type Change = fn(&Path);
        let changes: [Change; 4] = [
            |path| std::fs::write(path, "two").unwrap(),
            |path| {
                std::fs::write(path.with_extension("new"), "six").unwrap();
                std::fs::rename(path.with_extension("new"), path).unwrap();
            },
            |path| std::fs::remove_file(path).unwrap(),
            |path| std::fs::write(path, "ten").unwrap(),
        ];
        for change in changes {
            let stamps = Stamps::of(path.clone());
            assert!(stamps.is_unchanged());
            // Past the clock tick; within it the stamps may be equal.
            std::thread::sleep(Duration::from_millis(15));
            change(&path);
            assert!(!stamps.is_unchanged());
        }
    }

    #[test]
    fn what_was_gone_when_it_was_read_counts_as_changed_once_it_is_back() {
        let folder = Folder::new("gone");
        let path = folder.write("pkg/a.py", "one");
        let mut stamps = Stamps::of(path.clone());
        // Between the stamp and the reading the folder moved away; now it is back, and every stamp as before.
        std::fs::rename(folder.path.join("pkg"), folder.path.join("away")).unwrap();
        stamps.missing(path);
        assert!(stamps.is_unchanged());
        std::fs::rename(folder.path.join("away"), folder.path.join("pkg")).unwrap();
        assert!(!stamps.is_unchanged());
    }

    #[test]
    fn a_stamp_is_reliable_once_the_file_has_rested() {
        let folder = Folder::new("racy");
        let path = folder.write("a", "one");
        let young = Stamps::of(path.clone());
        assert!(!young.is_reliable());
        let wait = young.settles_in(SystemTime::now());
        assert!(wait > Duration::ZERO && wait <= RACE, "{wait:?}");
        std::thread::sleep(RACE + Duration::from_millis(5));
        assert!(Stamps::of(path).is_reliable());
        assert_eq!(young.settles_in(SystemTime::now()), Duration::ZERO);
    }

    #[test]
    fn what_came_and_went_leaves_a_trace() {
        let folder = Folder::new("traces");
        folder.write("pkg/a.py", "");
        for missing in ["pkg/b.py", "pkg/deep/er/c.py"] {
            let mut stamps = Stamps::of(folder.path.join(missing));
            stamps.add(folder.path.join("pkg"));
            let before = stamps.folder_fingerprint();
            assert_eq!(stamps.folder_fingerprint(), before);
            std::thread::sleep(Duration::from_millis(15));
            folder.write(missing, "");
            folder.remove(missing);
            let _ = std::fs::remove_dir_all(folder.path.join("pkg/deep"));
            assert!(stamps.is_unchanged() && stamps.folder_fingerprint() != before);
        }
    }

    #[test]
    fn a_folder_is_its_names_without_hidden_ones_and_caches() {
        let folder = Folder::new("names");
        folder.write("pkg/a.py", "");
        let stamps = Stamps::of(folder.path.join("pkg"));
        assert!(stamps.is_reliable());
        for same in ["pkg/.a.py.swp", "pkg/__pycache__/a.pyc", "pkg/a.py"] {
            folder.write(same, "x");
            assert!(stamps.is_unchanged(), "{same}");
        }
        folder.write("pkg/b.py", "");
        assert!(!stamps.is_unchanged());
    }
}
