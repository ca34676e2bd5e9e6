//! Sleeps until a descriptor is readable, the timeout expires, or the watcher is dropped.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub enum Wake {
    Stop,
    Ready,
    Timeout,
}

/// Without a timeout it sleeps until an event.
pub fn sleep(stopped: &UnixStream, fd: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> Wake {
    // A time that the kernel cannot express is as good as none.
    let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
    let pollfd = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut fds = [pollfd(stopped.as_fd()), pollfd(fd.unwrap_or(stopped.as_fd()))];
    match poll(&mut fds, timeout.as_ref()) {
        Ok(0) => Wake::Timeout,
        // A signal: the caller checks its deadline and sleeps again.
        Err(Errno::INTR) => Wake::Ready,
        Err(_) => Wake::Stop,
        Ok(_) if !fds[0].revents().is_empty() => Wake::Stop,
        Ok(_) => Wake::Ready,
    }
}
