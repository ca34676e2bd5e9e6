//! What a child reads.

use std::io;
use std::os::fd::OwnedFd;

use bytes::{Buf, Bytes};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::fds;

/// The bytes for the tool. A tool that doesn't read them all is no error by itself.
pub struct Stdin {
    pipe: Option<AsyncFd<OwnedFd>>,
    left: Bytes,
}

impl Stdin {
    /// What fits into the pipe goes in before the tool exists, which for most calls is everything: then there
    /// is nothing to wait for later.
    pub fn new(fd: OwnedFd, mut left: Bytes) -> io::Result<Stdin> {
        fds::set_nonblocking(&fd)?;
        while !left.is_empty() {
            match fds::write(&fd, &left) {
                Ok(n) => left.advance(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        let pipe = match left.is_empty() {
            true => None,
            false => Some(fds::register(fd, Interest::WRITABLE)?),
        };
        Ok(Stdin { pipe, left })
    }

    pub fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    pub async fn write(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let written = pipe.async_io(Interest::WRITABLE, |fd| fds::write(fd, &self.left)).await;
        match written {
            Ok(n) => self.left.advance(n),
            Err(_) => self.left.clear(),
        }
        if self.left.is_empty() {
            self.pipe = None;
        }
    }
}
