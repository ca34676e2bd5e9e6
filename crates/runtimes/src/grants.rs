//! Opens what a tool may use of the file system, and refuses what no tool may.
//!
//! A grant is what was really opened: beneath the yard or at the absolute path that was written, never through a
//! link. The rules are checked on the opened file, at each start, and the sandbox shows only that file.

use crate::beneath::{self, LinkPolicy};
use crate::homes::home_folders;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use toolyard_sandbox::{Grant, Identity};

/// What is read as a tool, a prompt, a resource, a skill or configuration, or runs as part of a tool or of git.
pub const PROTECTED: [&str; 8] =
    ["tools", "prompts", "resources", "skills", "toolyard.toml", "mcp.json", ".venv", ".git"];
/// Folders that interpreters read as code, wherever they are: compiled Python, packages of Node.js, of PHP's Composer
/// and of Python.
pub const CODE_FOLDERS: [&str; 5] = ["__pycache__", "node_modules", "vendor", ".venv", "site-packages"];
/// Whole folders of the system that are never granted.
const TOO_MUCH: [&str; 7] = ["/", "/etc", "/home", "/var", "/run", "/boot", "/root"];
/// The same for writing.
const SYSTEM: [&str; 9] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/srv", "/mnt"];
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The folders of a yard and of this machine that decide what may be granted.
pub struct Places {
    pub root: PathBuf,
    pub state: PathBuf,
    /// Home folders, from the user database and `HOME`.
    homes: Vec<PathBuf>,
    /// Absolute paths that no tool may write.
    protected: Vec<PathBuf>,
    /// Paths of the yard that tools may write; none lies inside another.
    written: RwLock<Arc<[PathBuf]>>,
}

/// Why a path is not granted; continues a sentence that begins with the path.
#[derive(Debug)]
pub enum Refusal {
    /// It does not exist (yet).
    Missing,
    Because(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Missing => f.write_str("does not exist"),
            Refusal::Because(why) => f.write_str(why),
        }
    }
}

impl Places {
    /// `home` is the folder that `HOME` names, `config` the user's configuration folder of this program.
    pub fn new(root: PathBuf, state: PathBuf, home: Option<&Path>, config: Option<PathBuf>) -> Places {
        let state = real_path(&state);
        let mut homes = home_folders();
        homes.extend(home.filter(|home| home.is_absolute() && home.parent().is_some()).map(Path::to_owned));
        homes.extend(home.and_then(|home| std::fs::canonicalize(home).ok()));
        let mut protected: Vec<PathBuf> = PROTECTED.iter().map(|name| root.join(name)).collect();
        protected.extend([state.clone(), PathBuf::from("/etc/toolyard")]);
        protected.extend(config);
        Places { root, state, homes, protected, written: RwLock::default() }
    }

    /// Whether the path is a home folder or contains one.
    pub fn home_in(&self, path: &Path) -> Option<&Path> {
        self.homes.iter().map(PathBuf::as_path).find(|home| home.starts_with(path))
    }

    /// Whether the path lies directly in a home folder, where folders such as `.local` hold anything.
    pub fn is_directly_in_home(&self, path: &Path) -> bool {
        path.parent().is_some_and(|parent| self.homes.iter().any(|home| home == parent))
    }

    pub fn is_inside_yard(&self, path: &Path) -> bool {
        path.starts_with(&self.root)
    }

    /// Sets which paths of the yard tools may write, for the runs that start from now on.
    pub fn set_written(&self, paths: Vec<PathBuf>) {
        *self.written.write().unwrap_or_else(PoisonError::into_inner) = paths.into();
    }

    /// What a tool that declares these paths does not see of the yard: the state folder, and what tools may write,
    /// unless it declares that too. Otherwise what one tool wrote could run as code of another.
    pub fn hidden_from<'p>(&self, declared: impl Iterator<Item = &'p PathBuf>) -> Vec<PathBuf> {
        let mut hidden = vec![self.state.clone()];
        let written = self.written.read().unwrap_or_else(PoisonError::into_inner).clone();
        if !written.is_empty() {
            let declared: Vec<PathBuf> =
                declared.map(|path| self.root.join(path).components().collect()).collect();
            let is_declared = |path: &&PathBuf| declared.iter().any(|declared| path.starts_with(declared));
            hidden.extend(written.iter().filter(|path| !is_declared(path)).cloned());
        }
        hidden
    }

    /// Opens a path as a tool file writes it: relative to the yard, or absolute.
    pub fn open(&self, declared: &Path, writable: bool) -> Result<Grant, Refusal> {
        let path: PathBuf = self.root.join(declared).components().collect();
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(Refusal::Because("contains '..'".to_owned()));
        }
        // Also what does not exist yet.
        if let Some(why) = self.refusal(&path, writable, None) {
            return Err(Refusal::Because(why));
        }
        let handle = self.open_without_links(&path).map_err(|error| self.open_error(&path, &error))?;
        let opened = std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        if !opened.is_ok_and(|opened| opened == path) {
            return Err(Refusal::Because("was moved while it was opened".to_owned()));
        }
        let grant = Grant::of(handle, path, writable).map_err(|error| Refusal::Because(error.to_string()))?;
        match self.refusal(&grant.path, writable, Some(grant.identity)) {
            Some(why) => Err(Refusal::Because(why)),
            None => Ok(grant),
        }
    }

    /// Why the path may not be granted, wherever the grant comes from; `identity` is what was found there.
    pub fn refusal(&self, path: &Path, writable: bool, identity: Option<Identity>) -> Option<String> {
        let is = |list: &[&str]| list.iter().any(|whole| path == Path::new(whole));
        if is(&TOO_MUCH) || (writable && is(&SYSTEM)) {
            return Some("would expose too much".to_owned());
        }
        if KERNEL.iter().any(|tree| path.starts_with(tree)) {
            return Some("belongs to the kernel".to_owned());
        }
        let same = |place: &Path| identity.is_some() && identity == self::identity(place);
        if path.starts_with(&self.state) || same(&self.state) {
            return Some("lies in the state folder, which no tool can open".to_owned());
        }
        let is_yard = path == self.root;
        if let Some(home) = self.home_in(path).filter(|_| !is_yard) {
            let which = if home == path { "is a home folder" } else { "contains a home folder" };
            return Some(format!("{which}, which would expose too much"));
        }
        // Another path to a folder above the state, where it would not be hidden.
        let above = self.state.ancestors().skip(1);
        if above.filter(|above| *above != path).any(same) {
            return Some("contains the state folder".to_owned());
        }
        if !writable {
            return None;
        }
        let holds = |place: &&PathBuf| place.starts_with(path) || path.starts_with(place) || same(place);
        let Some(place) = self.protected.iter().find(holds) else { return self.code_folder(path) };
        let shown = place.strip_prefix(&self.root).unwrap_or(place).display();
        let what = match path != place && path.starts_with(place) {
            true => format!("lies in {shown}"),
            false => format!("would make {shown} writable"),
        };
        Some(format!("{what}, where a tool could give itself permissions; use a folder of its own"))
    }

    /// Why a path is not writable because of a folder's name.
    fn code_folder(&self, path: &Path) -> Option<String> {
        let is_code = |part: &Component<'_>| CODE_FOLDERS.iter().any(|name| part.as_os_str() == *name);
        let part = path.strip_prefix(&self.root).unwrap_or(path).components().find(is_code)?;
        let name = part.as_os_str().display();
        Some(format!("lies in a folder named {name}, which interpreters read as code; use another name"))
    }

    fn open_without_links(&self, path: &Path) -> io::Result<OwnedFd> {
        if let Ok(below) = path.strip_prefix(&self.root) {
            let root = rustix::fs::open(&self.root, beneath::FOLDER | OFlags::CLOEXEC, Mode::empty())?;
            if below.as_os_str().is_empty() {
                return Ok(root);
            }
            return beneath::open(root.as_fd(), below, beneath::PATH_ONLY, LinkPolicy::Forbid);
        }
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?)
    }

    fn open_error(&self, path: &Path, error: &io::Error) -> Refusal {
        match error.raw_os_error() {
            Some(libc::ENOENT) => Refusal::Missing,
            Some(libc::ELOOP) => {
                let real = std::fs::canonicalize(path);
                let real = real.map_or(String::new(), |real| format!(" ({})", real.display()));
                Refusal::Because(format!(
                    "is a symbolic link or leads through one, and grants follow no links; write the real path{real}"
                ))
            }
            _ => Refusal::Because(format!("cannot be opened: {error}")),
        }
    }
}

/// Without links and `..`, as far as the path exists: paths are compared by their components.
pub fn real_path(path: &Path) -> PathBuf {
    let known = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    let joined = known.and_then(|(above, real)| Some(real.join(path.strip_prefix(above).ok()?)));
    joined.map_or_else(|| path.to_owned(), |path| path.components().collect())
}

fn identity(path: &Path) -> Option<Identity> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(Identity { device: stat.st_dev, inode: stat.st_ino })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places::new("/yards/a".into(), "/yards/a/.toolyard".into(), Some(Path::new("/people/u")), None)
    }

    #[test]
    fn what_is_read_as_part_of_the_yard_is_not_writable() {
        for path in PROTECTED.into_iter().chain([".toolyard", "", "tools/deep/er"]) {
            let path: PathBuf = Path::new("/yards/a").join(path).components().collect();
            assert!(places().refusal(&path, true, None).is_some(), "{path:?}");
        }
        for path in ["/yards", "/yards/a/tools/x", "/etc/toolyard", "/usr"] {
            assert!(places().refusal(Path::new(path), true, None).is_some(), "{path}");
        }
        for path in
            ["/yards/a/lib/__pycache__", "/yards/a/web/node_modules/x", "/yards/b/.venv/lib", "/data/vendor"]
        {
            let refused = places().refusal(Path::new(path), true, None);
            assert!(
                refused.is_some_and(|why| why.ends_with("which interpreters read as code; use another name")),
                "{path}"
            );
            assert_eq!(places().refusal(Path::new(path), false, None), None, "{path}");
        }
        for path in
            ["/yards/a/data", "/yards/a/pycache", "/yards/b/tools", "/yards/a/toolsmith", "/srv/models"]
        {
            assert_eq!(places().refusal(Path::new(path), true, None), None, "{path}");
        }
    }

    #[test]
    fn names_above_the_yard_decide_nothing() {
        let places = Places::new("/a/vendor/yard".into(), "/a/vendor/yard/.toolyard".into(), None, None);
        assert_eq!(places.refusal(Path::new("/a/vendor/yard/data"), true, None), None);
        assert!(places.refusal(Path::new("/a/vendor/other"), true, None).is_some());
    }

    #[test]
    fn a_state_folder_is_known_by_its_real_path() {
        let places = Places::new("/usr/share".into(), "/usr/share/../none/state".into(), None, None);
        assert_eq!(places.state, Path::new("/usr/none/state"));
        assert!(places.refusal(Path::new("/usr/none/state/secrets"), false, None).is_some());
    }

    #[test]
    fn the_state_home_folders_and_the_kernels_files_are_not_readable() {
        for path in [
            "/yards/a/.toolyard",
            "/yards/a/.toolyard/secrets",
            "/root",
            "/people/u",
            "/people",
            "/",
            "/proc/1",
        ] {
            assert!(places().refusal(Path::new(path), false, None).is_some(), "{path}");
        }
        for path in ["/yards/a", "/yards/a/tools", "/people/u/models", "/srv", "/etc/ssl", "/usr/share"] {
            assert_eq!(places().refusal(Path::new(path), false, None), None, "{path}");
        }
    }
}
