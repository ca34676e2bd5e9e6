//! Opens files of the yard by a caller's path, strictly beneath the yard's root.

use crate::beneath::{self, LinkPolicy};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use toolyard_protocol::{Error, ErrorKind};

/// The readable root folder, and the state folder inside it, which is not readable.
pub struct YardFiles {
    root: PathBuf,
    state: PathBuf,
}

impl YardFiles {
    pub fn new(root: PathBuf, state: PathBuf) -> YardFiles {
        YardFiles { root, state }
    }

    /// Opens a regular file for reading. The path is relative to the yard's root and must not leave it.
    pub fn open(&self, name: &str) -> Result<File, Error> {
        let file = open_beneath(&self.root, name).map_err(|error| open_error(name, &error))?;
        let meta = file.metadata().map_err(|error| open_error(name, &error))?;
        if !meta.is_file() {
            return Err(Error::new(ErrorKind::InvalidInput, "'file_path' is not a regular file"));
        }
        // Checks the opened file, not the path, which may contain links and `..`.
        let opened = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let opened = opened.map_err(|error| open_error(name, &error))?;
        let state = std::fs::canonicalize(&self.state).unwrap_or_else(|_| self.state.clone());
        if opened.starts_with(&state) {
            return Err(Error::new(ErrorKind::Forbidden, "'file_path' is in the yard's state folder")
                .hint("files of the state folder, such as the audit log, cannot be read"));
        }
        let root = std::fs::canonicalize(&self.root).unwrap_or_else(|_| self.root.clone());
        let below = opened.strip_prefix(root).unwrap_or(&opened);
        if below.iter().any(|name| name.as_encoded_bytes().starts_with(b".")) {
            return Err(Error::new(ErrorKind::Forbidden, "'file_path' has a name that begins with '.'")
                .hint("hidden files, such as .env, often hold secrets and cannot be read"));
        }
        Ok(file)
    }
}

fn open_beneath(root: &Path, name: &str) -> std::io::Result<File> {
    let folder =
        std::fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_PATH).open(root)?;
    beneath::open(folder.as_fd(), name, beneath::READ, LinkPolicy::Follow).map(File::from)
}

fn open_error(name: &str, error: &std::io::Error) -> Error {
    let (kind, what, hint) = match error.raw_os_error() {
        Some(libc::EXDEV) => {
            (ErrorKind::Forbidden, "'file_path' leads out of the yard", "use a path inside the yard")
        }
        Some(libc::ENOENT | libc::ENOTDIR) => (
            ErrorKind::ResourceNotFound,
            "file not found in the yard",
            "'file_path' is relative to the yard's root",
        ),
        Some(libc::EACCES | libc::EPERM) => {
            (ErrorKind::Forbidden, "the server may not read the file", "change its mode or its owner")
        }
        Some(libc::ELOOP) => {
            (ErrorKind::InvalidInput, "'file_path' goes through too many links", "use the file's own path")
        }
        _ if name.contains('\0') => {
            (ErrorKind::InvalidInput, "'file_path' contains a NUL character", "remove it")
        }
        _ => {
            let message = format!("cannot open the file: {error}");
            return Error::new(ErrorKind::Unavailable, message);
        }
    };
    Error::new(kind, what).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn only_files_beneath_the_root_are_opened() {
        let base = std::env::temp_dir().join(format!("toolyard-files-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&base);
        let root = base.join("yard");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::create_dir_all(root.join(".toolyard")).unwrap();
        std::fs::write(base.join("outside"), "secret").unwrap();
        std::fs::write(root.join("a.txt"), "inside").unwrap();
        std::fs::write(root.join(".toolyard/log"), "log").unwrap();
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        link("../outside", "up");
        link("/etc/passwd", "absolute");
        link("../a.txt", "sub/within");
        link(".toolyard", "state");
        link("/proc/self/cwd", "magic");
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::write(root.join(".git/config"), "token").unwrap();
        std::fs::write(root.join(".env"), "token").unwrap();
        link(".env", "visible");
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), 0o600.into()).unwrap();
        let files = YardFiles::new(root.clone(), root.join(".toolyard"));
        for good in ["a.txt", "./a.txt", "sub/../a.txt", "sub/within"] {
            let mut text = String::new();
            files.open(good).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "inside", "{good}");
        }
        for (bad, kind) in [
            ("../outside", ErrorKind::Forbidden),
            ("up", ErrorKind::Forbidden),
            ("absolute", ErrorKind::Forbidden),
            ("/etc/passwd", ErrorKind::Forbidden),
            ("sub/../../outside", ErrorKind::Forbidden),
            (".toolyard/log", ErrorKind::Forbidden),
            ("state/log", ErrorKind::Forbidden),
            ("magic/a.txt", ErrorKind::Forbidden),
            (".env", ErrorKind::Forbidden),
            (".git/config", ErrorKind::Forbidden),
            ("sub/../.env", ErrorKind::Forbidden),
            ("visible", ErrorKind::Forbidden),
            ("nothing", ErrorKind::ResourceNotFound),
            ("a.txt/x", ErrorKind::ResourceNotFound),
            ("sub", ErrorKind::InvalidInput),
            ("fifo", ErrorKind::InvalidInput),
            ("a\0b", ErrorKind::InvalidInput),
            ("", ErrorKind::ResourceNotFound),
        ] {
            let error = files.open(bad).expect_err(bad);
            assert_eq!(error.kind, kind, "{bad}: {error}");
        }
        std::fs::remove_dir_all(&base).unwrap();
    }
}
