//! Opens files beneath a folder: `openat2` confines the path resolution, so that no race can escape.
//!
//! Without `openat2` only files that no link may lead to are opened, name by name; there is no weaker fallback.

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

/// How links in a path are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPolicy {
    /// Links are followed if they stay beneath the folder.
    Follow,
    /// No links.
    Forbid,
    /// No links and no crossing of file systems.
    Refuse,
}

/// Why a file was not read; continues a sentence that begins with its name.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("is a symbolic link, or lies behind one, and links are not followed here")]
    Link,
    #[error("leads out of the yard")]
    Outside,
    #[error("is not a regular file")]
    NotRegular,
    #[error("is too large: at most {max} bytes are read")]
    TooLarge { max: usize },
    #[error("cannot be read: {0}")]
    Io(io::Error),
}

impl ReadError {
    pub fn is_missing(&self) -> bool {
        matches!(self, ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        match error.raw_os_error() {
            Some(libc::ELOOP) => ReadError::Link,
            Some(libc::EXDEV) => ReadError::Outside,
            // A socket.
            Some(libc::ENXIO) => ReadError::NotRegular,
            _ => ReadError::Io(error),
        }
    }
}

/// Opens a regular file beneath `root`. A pipe or a device is an error and not waited for.
pub fn open_regular(root: &Path, path: &Path, links: LinkPolicy) -> Result<File, ReadError> {
    let folder = rustix::fs::open(root, FOLDER | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)?;
    regular(open(folder.as_fd(), path, READ, links)?.into())
}

/// The same for a file outside the yard, whose path its owner chose.
pub fn open_regular_anywhere(path: &Path) -> Result<File, ReadError> {
    regular(File::from(
        rustix::fs::open(path, READ | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)?,
    ))
}

/// The whole file, which must not be larger than `max` while it is read.
pub fn read_all(file: File, max: usize) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    file.take(max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > max { Err(ReadError::TooLarge { max }) } else { Ok(bytes) }
}

fn regular(file: File) -> Result<File, ReadError> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(ReadError::NotRegular) }
}

/// Retries: the kernel returns EAGAIN if a rename interferes with the resolution.
const MAX_RACES: usize = 32;

pub const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// Does not block on a pipe without a writer, and does not acquire a controlling terminal.
pub const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// For metadata only, not for reading.
pub const PATH_ONLY: OFlags = OFlags::PATH;
/// Creates a file that must not exist yet.
pub const CREATE: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW);

pub fn open(
    folder: BorrowedFd<'_>,
    name: impl AsRef<Path>,
    flags: OFlags,
    links: LinkPolicy,
) -> io::Result<OwnedFd> {
    let created = Mode::RUSR | Mode::WUSR;
    let mode = if flags.contains(OFlags::CREATE) { created } else { Mode::empty() };
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    resolve |= match links {
        LinkPolicy::Follow => ResolveFlags::empty(),
        LinkPolicy::Forbid => ResolveFlags::NO_SYMLINKS,
        LinkPolicy::Refuse => ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV,
    };
    for _ in 0..MAX_RACES {
        match rustix::fs::openat2(folder, name.as_ref(), flags | OFlags::CLOEXEC, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS) if links == LinkPolicy::Forbid => {
                return open_by_name(folder, name.as_ref(), flags);
            }
            opened => return Ok(opened?),
        }
    }
    Err(Errno::AGAIN.into())
}

/// For kernels before 5.6 and programs that trace this one, such as valgrind.
fn open_by_name(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut names = path.components().peekable();
    let mut opened: Option<OwnedFd> = None;
    while let Some(component) = names.next() {
        let Component::Normal(name) = component else { return Err(Errno::XDEV.into()) };
        let flags = if names.peek().is_some() { FOLDER } else { flags };
        let from = opened.as_ref().map_or(folder, AsFd::as_fd);
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        opened = Some(rustix::fs::openat(from, name, flags, Mode::empty())?);
    }
    opened.ok_or_else(|| Errno::INVAL.into())
}

/// Creates a file that does not exist yet, with the folders above it. No link beneath `root` is followed.
pub fn create_new(root: &Path, path: &Path) -> io::Result<File> {
    std::fs::create_dir_all(root)?;
    let mut folder = rustix::fs::open(root, FOLDER | OFlags::CLOEXEC, Mode::empty())?;
    let mut names = path.components().peekable();
    while let Some(component) = names.next() {
        let Component::Normal(name) = component else { return Err(Errno::XDEV.into()) };
        if names.peek().is_none() {
            let mode = Mode::from_raw_mode(0o666);
            return Ok(rustix::fs::openat(&folder, name, CREATE | OFlags::CLOEXEC, mode)?.into());
        }
        match rustix::fs::mkdirat(&folder, name, 0o777.into()) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        folder = open(folder.as_fd(), name, FOLDER, LinkPolicy::Forbid)?;
    }
    Err(Errno::INVAL.into())
}

pub fn make_folder(folder: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(folder, name, 0o777.into())?)
}

/// Removes a file or link; links are not followed.
pub fn unlink(folder: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
}

/// Replaces `to` by `from` atomically; a link at `to` is replaced, not followed.
pub fn rename(folder: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()> {
    Ok(rustix::fs::renameat(folder, from, folder, to)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_openat2_no_link_is_followed_either() {
        let base = std::env::temp_dir().join(format!("toolyard-beneath-{}", std::process::id()));
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        std::fs::write(base.join("a/b/file"), "text").unwrap();
        let _ = std::os::unix::fs::symlink("b/file", base.join("a/link"));
        let _ = std::os::unix::fs::symlink("a", base.join("linked"));
        let folder = rustix::fs::open(&base, FOLDER, Mode::empty()).unwrap();
        for (path, is_opened) in [
            ("a/b/file", true),
            ("a/link", false),
            ("linked/b/file", false),
            ("a/../a/b/file", false),
            ("", false),
        ] {
            let by_name = open_by_name(folder.as_fd(), Path::new(path), READ);
            assert_eq!(by_name.is_ok(), is_opened, "{path}");
        }
        std::fs::remove_dir_all(&base).unwrap();
    }
}
