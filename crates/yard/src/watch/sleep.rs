//! Sleeps until a descriptor is readable, the timeout expires, or the watcher is dropped.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub enum Wake {
    Stop,
    Ready,
    Timeout,
}

/// Without a timeout it sleeps until an event.
pub fn sleep(stopped: &UnixStream, fd: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> Wake {
    // Rounded up: waking just before the time is over would spin.
    let timeout = timeout.map_or(-1, |time| i32::try_from(time.as_millis() + 1).unwrap_or(i32::MAX));
    let pollfd = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // poll(2) ignores negative descriptors.
    let mut fds = [pollfd(stopped.as_raw_fd()), pollfd(fd.map_or(-1, |fd| fd.as_raw_fd()))];
    // SAFETY: `fds` has two elements, both open for as long as they are borrowed.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), 2, timeout) };
    match ready {
        0 => Wake::Timeout,
        // A signal: the caller checks its deadline and sleeps again.
        n if n < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Wake::Ready,
        n if n < 0 => Wake::Stop,
        _ if fds[0].revents != 0 => Wake::Stop,
        _ => Wake::Ready,
    }
}
