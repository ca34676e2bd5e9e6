//! Opens files beneath a folder: `openat2` confines the path resolution, so that no race can escape.
//!
//! Without `openat2` nothing is opened; there is no weaker fallback.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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

pub const FOLDER: i32 = libc::O_PATH | libc::O_DIRECTORY;
/// Does not block on a pipe without a writer, and does not acquire a controlling terminal.
pub const READ: i32 = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
/// For metadata only, not for reading.
pub const PATH_ONLY: i32 = libc::O_PATH;
/// Creates a file that must not exist yet.
pub const CREATE: i32 = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;

pub fn open(folder: BorrowedFd<'_>, name: &str, flags: i32, links: LinkPolicy) -> io::Result<OwnedFd> {
    let name = c_string(name)?;
    // SAFETY: all zero is a valid value of this plain structure.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u64;
    how.mode = if flags & libc::O_CREAT == 0 { 0 } else { 0o600 };
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
    if links == LinkPolicy::Refuse {
        how.resolve |= libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV;
    }
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
            // SAFETY: the descriptor is new and has no other owner.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        }
        let error = io::Error::last_os_error();
        if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
            return Err(error);
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}

pub fn make_folder(folder: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: the descriptor is open and the name ends in NUL.
    check(unsafe { libc::mkdirat(folder.as_raw_fd(), name.as_ptr(), 0o777) })
}

/// Removes a file or link; links are not followed.
pub fn unlink(folder: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: the descriptor is open and the name ends in NUL.
    check(unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) })
}

/// Replaces `to` by `from` atomically; a link at `to` is replaced, not followed.
pub fn rename(folder: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (c_string(from)?, c_string(to)?);
    let fd = folder.as_raw_fd();
    // SAFETY: the descriptor is open and both names end in NUL.
    check(unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) })
}

fn c_string(name: &str) -> io::Result<CString> {
    CString::new(name).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
