//! Files of the yard that a caller names: opened beneath its root, whatever the name tries.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use toolyard_protocol::{Error, ErrorKind};

/// The folder files may come from, and the one inside it that they may not.
pub struct Files {
    root: PathBuf,
    state: PathBuf,
}

impl Files {
    pub fn new(root: PathBuf, state: PathBuf) -> Files {
        Files { root, state }
    }

    /// A regular file, for reading. Names are relative to the yard's root; a link may not lead out of it.
    pub fn open(&self, name: &str) -> Result<File, Error> {
        let file = open_beneath(&self.root, name).map_err(|error| refused(name, &error))?;
        let meta = file.metadata().map_err(|error| refused(name, &error))?;
        if !meta.is_file() {
            return Err(Error::new(ErrorKind::InvalidInput, "'file_path' names something that is no file"));
        }
        // By the file that was opened, not by its name: a link or another spelling leads to it too.
        let opened = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let opened = opened.map_err(|error| refused(name, &error))?;
        let state = std::fs::canonicalize(&self.state).unwrap_or_else(|_| self.state.clone());
        if opened.starts_with(&state) {
            return Err(Error::new(ErrorKind::Forbidden, "'file_path' lies in the yard's state folder")
                .hint("the state folder holds the audit log and is never given out"));
        }
        Ok(file)
    }
}

/// The kernel keeps the whole walk beneath the root, so that no race can lead out of it.
fn open_beneath(root: &Path, name: &str) -> std::io::Result<File> {
    let folder =
        std::fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_PATH).open(root)?;
    let name = CString::new(name).map_err(|_| std::io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: all zero is a valid value of this plain structure.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    // A pipe must not keep us waiting for a writer.
    how.flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY) as u64;
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
    for _ in 0..MAX_RACES {
        // SAFETY: the descriptor is open, the name ends in NUL, and the size is that of the structure.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_openat2,
                folder.as_raw_fd(),
                name.as_ptr(),
                &how,
                size_of::<libc::open_how>(),
            )
        };
        if fd >= 0 {
            // SAFETY: the descriptor is new and ours alone.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }.into());
        }
        let error = std::io::Error::last_os_error();
        // A rename happened somewhere while `..` was followed; the kernel asks for another try.
        if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
            return Err(error);
        }
    }
    Err(std::io::Error::from_raw_os_error(libc::EAGAIN))
}

const MAX_RACES: usize = 32;

fn refused(name: &str, error: &std::io::Error) -> Error {
    let (kind, what, hint) = match error.raw_os_error() {
        Some(libc::EXDEV) => {
            (ErrorKind::Forbidden, "'file_path' leads out of the yard", "name a file beneath the yard's root")
        }
        Some(libc::ENOENT | libc::ENOTDIR) => (
            ErrorKind::ResourceNotFound,
            "there is no such file in the yard",
            "'file_path' is relative to the yard's root",
        ),
        Some(libc::EACCES | libc::EPERM) => {
            (ErrorKind::Forbidden, "the file may not be read by the server", "change its mode or its owner")
        }
        Some(libc::ELOOP) => {
            (ErrorKind::InvalidInput, "'file_path' goes through too many links", "name the file itself")
        }
        _ if name.contains('\0') => {
            (ErrorKind::InvalidInput, "'file_path' contains a NUL character", "remove it")
        }
        _ => {
            let message = format!("the file cannot be opened: {error}");
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
        let fifo = CString::new(root.join("fifo").to_str().unwrap()).unwrap();
        // SAFETY: the name ends in NUL.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        let files = Files::new(root.clone(), root.join(".toolyard"));
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
