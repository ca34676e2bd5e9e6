//! Opens files beneath a folder: `openat2` confines the path resolution, so that no race can escape.
//!
//! Without `openat2` nothing is opened; there is no weaker fallback.

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// How links in a path are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPolicy {
    /// Links are followed if they stay beneath the folder.
    Follow,
    /// No links and no crossing of file systems.
    Refuse,
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

pub fn open(folder: BorrowedFd<'_>, name: &str, flags: OFlags, links: LinkPolicy) -> io::Result<OwnedFd> {
    let created = Mode::RUSR | Mode::WUSR;
    let mode = if flags.contains(OFlags::CREATE) { created } else { Mode::empty() };
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links == LinkPolicy::Refuse {
        resolve |= ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    }
    for _ in 0..MAX_RACES {
        match rustix::fs::openat2(folder, name, flags | OFlags::CLOEXEC, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return Ok(opened?),
        }
    }
    Err(Errno::AGAIN.into())
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
