//! Pipes and the control socket: close-on-exec, non-blocking descriptors.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Lower descriptor numbers are assigned with dup2 in the child, so the daemon's own must be above.
const FIRST_FREE: RawFd = 8;

/// A pipe as (read end, write end).
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    // SAFETY: `fds` has room for two descriptors, which nothing else owns.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    pair(fds)
}

/// The control socket as (ours, the launcher's).
pub fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: as for `pipe`.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    pair(fds)
}

/// Registers a non-blocking descriptor with the runtime.
pub fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names the same open descriptor for as long as the `AsyncFd` owns it.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)
}

pub fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: plain calls on a descriptor we own. A new pipe or socket has no other status flags.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }).map(drop)
}

/// Appends at most `max` (> 0) bytes; returns 0 at the end of the stream. The buffer doubles as it fills but
/// never grows beyond what `max` needs.
pub fn read(fd: &OwnedFd, into: &mut Vec<u8>, max: usize) -> io::Result<usize> {
    if into.len() == into.capacity() {
        into.reserve_exact(into.len().max(4096).min(max));
    }
    let room = into.spare_capacity_mut();
    let max = max.min(room.len());
    loop {
        // SAFETY: `room` is at least `max` writable bytes.
        let n = unsafe { libc::read(fd.as_raw_fd(), room.as_mut_ptr().cast(), max) };
        if let Ok(n) = usize::try_from(n) {
            // SAFETY: the kernel filled the first `n` bytes of the spare capacity.
            unsafe { into.set_len(into.len() + n) };
            return Ok(n);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Appends at most `max` bytes and returns the descriptor that was passed with them, if any.
pub fn receive(fd: &OwnedFd, into: &mut Vec<u8>, max: usize) -> io::Result<(usize, Option<OwnedFd>)> {
    into.reserve(max);
    let room = into.spare_capacity_mut();
    let mut vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: max.min(room.len()) };
    // Aligned for a control message with one descriptor.
    let mut control = [0u64; 4];
    // SAFETY: an all-zero header is valid; the pointers set in it outlive the call.
    let (n, header) = unsafe {
        let mut header = std::mem::zeroed::<libc::msghdr>();
        header.msg_iov = &mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        (libc::recvmsg(fd.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC), header)
    };
    let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel filled the first `n` bytes and the control messages in `header`; a received
    // descriptor is new and has no other owner.
    let passed = unsafe {
        into.set_len(into.len() + n);
        let message = libc::CMSG_FIRSTHDR(&header);
        let is_one = !message.is_null()
            && (*message).cmsg_level == libc::SOL_SOCKET
            && (*message).cmsg_type == libc::SCM_RIGHTS;
        is_one.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(message).cast::<RawFd>().read_unaligned()))
    };
    Ok((n, passed))
}

/// Writes what fits. A closed reader is an error (EPIPE), since the Rust runtime ignores SIGPIPE.
pub fn write(fd: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        // SAFETY: `bytes` is readable for its whole length.
        let n = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        if let Ok(n) = usize::try_from(n) {
            return Ok(n);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Converts a -1 result to the last OS error.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn pair(fds: [RawFd; 2]) -> io::Result<(OwnedFd, OwnedFd)> {
    // SAFETY: both were just created and have no other owner.
    let [a, b] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((above_stdio(a)?, above_stdio(b)?))
}

/// A daemon started without stdio gets 0–3 for its own descriptors, which dup2 in the child would overwrite.
pub fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= FIRST_FREE {
        return Ok(fd);
    }
    // SAFETY: the duplicate is new and has no other owner.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST_FREE) })
        .map(|new| unsafe { OwnedFd::from_raw_fd(new) })
}
