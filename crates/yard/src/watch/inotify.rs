//! A safe wrapper around inotify.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Every change of a folder's entries or of a file in it. Reading and executing files causes no events.
const MASK: u32 = libc::IN_CREATE
    | libc::IN_DELETE
    | libc::IN_MOVED_FROM
    | libc::IN_MOVED_TO
    | libc::IN_MODIFY
    | libc::IN_CLOSE_WRITE
    | libc::IN_ATTRIB
    | libc::IN_DELETE_SELF
    | libc::IN_MOVE_SELF
    | libc::IN_EXCL_UNLINK
    | libc::IN_ONLYDIR;

/// Identifies a watched folder; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchDescriptor(i32);

pub struct Event<'e> {
    pub folder: WatchDescriptor,
    pub mask: u32,
    /// Empty when it is about the folder itself.
    pub name: &'e OsStr,
}

pub struct Inotify {
    fd: OwnedFd,
}

impl Inotify {
    pub fn new() -> io::Result<Inotify> {
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })?;
        // SAFETY: a fresh descriptor that is ours alone.
        Ok(Inotify { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The same folder gives the same descriptor, whatever the path.
    pub fn watch(&self, folder: &Path) -> io::Result<WatchDescriptor> {
        let path = CString::new(folder.as_os_str().as_bytes())?;
        // SAFETY: `path` ends with NUL and outlives the call.
        check(unsafe { libc::inotify_add_watch(self.fd.as_raw_fd(), path.as_ptr(), MASK) })
            .map(WatchDescriptor)
    }

    pub fn remove_watch(&self, folder: WatchDescriptor) {
        // SAFETY: no memory is passed. It fails when the folder is gone, and its watch with it.
        unsafe { libc::inotify_rm_watch(self.fd.as_raw_fd(), folder.0) };
    }

    /// Passes all pending events to `each`, without blocking.
    pub fn drain(&self, mut each: impl FnMut(Event<'_>)) -> io::Result<()> {
        // Aligned for the events that the kernel writes.
        let mut buffer = [0u64; 2048];
        loop {
            let room = std::mem::size_of_val(&buffer);
            // SAFETY: `buffer` is `room` writable bytes.
            let got = unsafe { libc::read(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), room) };
            let Ok(got) = usize::try_from(got) else {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                }
            };
            // SAFETY: the first `got` bytes were written by the kernel; any bytes are valid `u8`s.
            let mut rest = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), got) };
            while let Some((event, after)) = split(rest) {
                each(event);
                rest = after;
            }
        }
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The first event: folder, mask, cookie, length of the name, then the name padded with NULs.
fn split(bytes: &[u8]) -> Option<(Event<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<16>()?;
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (name, rest) = rest.split_at_checked(word(12) as usize)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let event = Event {
        folder: WatchDescriptor(word(0) as i32),
        mask: word(4),
        name: OsStr::from_bytes(&name[..end]),
    };
    Some((event, rest))
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
