//! The inotify events that the watchers need.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Every change of a folder's entries or of a file in it. Reading and executing files causes no events.
const WATCHED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::ONLYDIR);

/// Identifies a watched folder; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchDescriptor(i32);

pub struct Event<'e> {
    pub folder: WatchDescriptor,
    pub flags: ReadFlags,
    /// Empty when it is about the folder itself.
    pub name: &'e OsStr,
}

pub struct Inotify {
    fd: OwnedFd,
}

impl Inotify {
    pub fn new() -> io::Result<Inotify> {
        Ok(Inotify { fd: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)? })
    }

    /// The same folder gives the same descriptor, whatever the path.
    pub fn watch(&self, folder: &Path) -> io::Result<WatchDescriptor> {
        Ok(WatchDescriptor(inotify::add_watch(&self.fd, folder, WATCHED)?))
    }

    pub fn remove_watch(&self, folder: WatchDescriptor) {
        // It fails when the folder is gone, and its watch with it.
        let _ = inotify::remove_watch(&self.fd, folder.0);
    }

    /// Passes all pending events to `each`, without blocking.
    pub fn drain(&self, mut each: impl FnMut(Event<'_>)) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut events = Reader::new(&self.fd, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => each(Event {
                    folder: WatchDescriptor(event.wd()),
                    flags: event.events(),
                    name: OsStr::from_bytes(event.file_name().unwrap_or_default().to_bytes()),
                }),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
