//! Stdin of a child.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use bytes::{Buf, Bytes};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::fds;

/// Stdin of one run. It is not an error if the tool does not read all of it.
pub struct Stdin {
    pipe: Option<AsyncFd<OwnedFd>>,
    left: Bytes,
}

impl Stdin {
    /// Fills the pipe before the tool starts. Most inputs fit completely, so no later write is needed.
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

/// Bytes that may be queued; a single message may be longer.
const MAX_QUEUED: usize = 1 << 20;

/// The queue is full because the child does not read.
#[derive(Debug)]
pub struct StdinFull {
    pub queued: usize,
}

/// A stdin that stays open: bytes are queued at any time and written as the child reads them.
pub struct StdinQueue {
    /// `None` once it was closed, by us or by the child.
    pipe: Option<AsyncFd<OwnedFd>>,
    left: VecDeque<Bytes>,
    queued: usize,
    broken: bool,
}

impl StdinQueue {
    pub fn new(fd: OwnedFd, first: Bytes) -> io::Result<StdinQueue> {
        fds::set_nonblocking(&fd)?;
        let pipe = fds::register(fd, Interest::WRITABLE)?;
        // The first message may be as long as the tool's input limit; `MAX_QUEUED` applies to later ones.
        Ok(StdinQueue { pipe: Some(pipe), queued: first.len(), left: VecDeque::from([first]), broken: false })
    }

    pub fn push(&mut self, bytes: Bytes) -> Result<(), StdinFull> {
        if self.pipe.is_none() {
            return Ok(());
        }
        if !self.left.is_empty() && self.queued.saturating_add(bytes.len()) > MAX_QUEUED {
            return Err(StdinFull { queued: self.queued });
        }
        self.queued += bytes.len();
        self.left.push_back(bytes);
        Ok(())
    }

    pub fn has_pending(&self) -> bool {
        self.pipe.is_some() && !self.left.is_empty()
    }

    /// The child closed its end.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    pub fn close(&mut self) {
        self.pipe = None;
        self.left.clear();
        self.queued = 0;
    }

    /// Cancel-safe: it waits first and writes in the same poll.
    pub async fn write(&mut self) {
        let (Some(pipe), Some(first)) = (&self.pipe, self.left.front_mut()) else { return };
        match pipe.async_io(Interest::WRITABLE, |fd| fds::write(fd, first)).await {
            Ok(n) => {
                first.advance(n);
                self.queued = self.queued.saturating_sub(n);
                if first.is_empty() {
                    self.left.pop_front();
                }
            }
            Err(_) => {
                self.close();
                self.broken = true;
            }
        }
    }
}
