//! Pipes and the control socket: close-on-exec, non-blocking descriptors.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::fs::OFlags;
use rustix::io::retry_on_intr;
use rustix::net::{self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::net::{SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use toolyard_launcher::script;

/// Lower descriptor numbers are assigned with dup2 in the child, so the daemon's own must be above.
const FIRST_FREE: RawFd = script::FD_END as RawFd;

/// A pipe as (read end, write end).
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    Ok((above_stdio(read)?, above_stdio(write)?))
}

/// The control socket as (ours, the launcher's).
pub fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (a, b) = net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    Ok((above_stdio(a)?, above_stdio(b)?))
}

/// Registers a non-blocking descriptor with the runtime.
pub fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names the same open descriptor for as long as the `AsyncFd` owns it.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)
}

/// A new pipe or socket has no other status flags.
pub fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    Ok(rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK)?)
}

/// Appends at most `max` (> 0) bytes; returns 0 at the end of the stream. The buffer doubles as it fills but
/// never grows beyond what `max` needs.
pub fn read(fd: &OwnedFd, into: &mut Vec<u8>, max: usize) -> io::Result<usize> {
    if into.len() == into.capacity() {
        into.reserve_exact(into.len().max(4096).min(max));
    }
    let length = into.len();
    let room = into.spare_capacity_mut();
    let max = max.min(room.len());
    let n = retry_on_intr(|| rustix::io::read(fd, &mut room[..max]).map(|(read, _)| read.len()))?;
    // SAFETY: the kernel filled the first `n` bytes of the spare capacity.
    unsafe { into.set_len(length + n) };
    Ok(n)
}

/// Appends at most `max` bytes and returns the descriptor that was passed with them, if any.
pub fn receive(fd: &OwnedFd, into: &mut Vec<u8>, max: usize) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut bytes = [0; 64];
    let max = max.min(bytes.len());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut bytes[..max])];
    let n = net::recvmsg(fd, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    into.extend_from_slice(&bytes[..n]);
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((n, passed))
}

/// Writes what fits. A closed reader is an error (EPIPE), since the Rust runtime ignores SIGPIPE.
pub fn write(fd: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::write(fd, bytes))?)
}

/// A daemon started without stdio gets 0–3 for its own descriptors, which dup2 in the child would overwrite.
pub fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= FIRST_FREE {
        return Ok(fd);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&fd, FIRST_FREE)?)
}
