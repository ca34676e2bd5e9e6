//! What a child writes: stdout whole up to a cap, of stderr the last lines.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use toolyard_protocol::text::escape_control;

use super::fds;

/// Bytes and lines of stderr that are kept.
const TAIL_BYTES: usize = 2048;
const TAIL_LINES: usize = 20;
/// What may still be read once the tree is dead; more than any pipe holds, so that a stranger who was handed
/// the other end can't keep us here.
const MAX_DRAIN_BYTES: usize = 2 << 20;

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// stdout, or a line of it, came to more than the cap.
#[derive(Debug)]
pub struct OverCap;

pub struct Stdout {
    pipe: PipeReader,
    bytes: Vec<u8>,
    cap: usize,
}

impl Stdout {
    pub fn new(fd: OwnedFd, cap: usize) -> io::Result<Stdout> {
        Ok(Stdout { pipe: PipeReader::new(fd)?, bytes: Vec::new(), cap })
    }

    pub fn is_open(&self) -> bool {
        self.pipe.open
    }

    pub async fn read(&mut self) -> Result<(), OverCap> {
        // One byte beyond the cap is enough to know.
        let max = self.cap.saturating_add(1) - self.bytes.len();
        self.pipe.read(&mut self.bytes, max).await;
        if self.bytes.len() > self.cap { Err(OverCap) } else { Ok(()) }
    }

    /// What is left in the pipe; the writers are dead.
    pub fn finish(mut self) -> Result<Vec<u8>, OverCap> {
        while self.pipe.open && self.bytes.len() <= self.cap {
            let max = self.cap.saturating_add(1) - self.bytes.len();
            self.pipe.try_read(&mut self.bytes, max);
        }
        if self.bytes.len() > self.cap { Err(OverCap) } else { Ok(self.bytes) }
    }
}

/// stdout line by line, for a child that is talked with.
pub struct Lines {
    pipe: PipeReader,
    bytes: Vec<u8>,
    /// Where the next line begins, and up to where it is known to hold no line break.
    start: usize,
    scanned: usize,
    cap: usize,
    /// What may still be read when the writers are dead.
    last: usize,
}

impl Lines {
    pub fn new(fd: OwnedFd, cap: usize) -> io::Result<Lines> {
        let pipe = PipeReader::new(fd)?;
        Ok(Lines { pipe, bytes: Vec::new(), start: 0, scanned: 0, cap, last: MAX_DRAIN_BYTES })
    }

    pub fn is_open(&self) -> bool {
        self.pipe.open
    }

    /// The next whole line that was read; at the end of the pipe also what has no line break.
    pub fn next(&mut self) -> Result<Option<Bytes>, OverCap> {
        let found = self.bytes[self.scanned..].iter().position(|&b| b == b'\n').map(|i| self.scanned + i);
        let (end, next) = match found {
            Some(end) => (end, end + 1),
            None if !self.pipe.open && self.start < self.bytes.len() => (self.bytes.len(), self.bytes.len()),
            None => {
                self.bytes.drain(..self.start);
                (self.start, self.scanned) = (0, self.bytes.len());
                return if self.bytes.len() > self.cap { Err(OverCap) } else { Ok(None) };
            }
        };
        let line = &self.bytes[self.start..end];
        if line.len() > self.cap {
            return Err(OverCap);
        }
        let line = Bytes::copy_from_slice(line);
        (self.start, self.scanned) = (next, next);
        Ok(Some(line))
    }

    /// Reads more. Ask for it only when there is no [`Lines::next`]: that is what bounds the memory.
    pub async fn fill(&mut self) {
        self.pipe.read(&mut self.bytes, CHUNK).await;
    }

    /// Reads more of what dead writers left; `false` at the end.
    pub fn try_fill(&mut self) -> bool {
        let max = CHUNK.min(self.last);
        let n = if self.pipe.open && max > 0 { self.pipe.try_read(&mut self.bytes, max) } else { 0 };
        self.last -= n;
        self.pipe.open = n > 0;
        n > 0
    }
}

pub struct Stderr {
    pipe: PipeReader,
    tail: Vec<u8>,
}

impl Stderr {
    pub fn new(fd: OwnedFd) -> io::Result<Stderr> {
        Ok(Stderr { pipe: PipeReader::new(fd)?, tail: Vec::new() })
    }

    pub fn is_open(&self) -> bool {
        self.pipe.open
    }

    pub async fn read(&mut self) {
        self.pipe.read(&mut self.tail, TAIL_BYTES).await;
        self.truncate_tail();
    }

    /// What is left in the pipe; the writers are dead.
    pub fn finish(mut self) -> String {
        let mut left = MAX_DRAIN_BYTES;
        while self.pipe.open && left > 0 {
            left = left.saturating_sub(self.pipe.try_read(&mut self.tail, TAIL_BYTES));
            self.truncate_tail();
        }
        tail_text(&self.tail)
    }

    /// One byte more than is shown is kept, to know whether the first line is whole.
    fn truncate_tail(&mut self) {
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES + 1);
        self.tail.drain(..surplus);
    }
}

/// The last lines, without a first one that lost its beginning unless there is no other.
fn tail_text(tail: &[u8]) -> String {
    let cut = match tail.len() > TAIL_BYTES {
        true => tail.iter().position(|&b| b == b'\n').map_or(1, |i| i + 1),
        false => 0,
    };
    let text = escape_control(&String::from_utf8_lossy(&tail[cut.min(tail.len())..]));
    let text = text.trim_end();
    let lines = text.rmatch_indices('\n').nth(TAIL_LINES - 1).map_or(0, |(i, _)| i + 1);
    // Escapes made visible are longer than they were.
    let bytes = text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES));
    text[lines.max(bytes)..].to_owned()
}

/// The reading end of a pipe. Any error ends it as its end does: the tree's own end tells what happened.
struct PipeReader {
    fd: AsyncFd<OwnedFd>,
    open: bool,
}

impl PipeReader {
    fn new(fd: OwnedFd) -> io::Result<PipeReader> {
        fds::set_nonblocking(&fd)?;
        Ok(PipeReader { fd: fds::register(fd, Interest::READABLE)?, open: true })
    }

    /// Nothing is lost when the future is dropped: it waits first and reads in the same poll.
    async fn read(&mut self, into: &mut Vec<u8>, max: usize) {
        let result = self.fd.async_io(Interest::READABLE, |fd| fds::read(fd, into, max)).await;
        self.open = matches!(result, Ok(n) if n > 0);
    }

    fn try_read(&mut self, into: &mut Vec<u8>, max: usize) -> usize {
        let n = fds::read(self.fd.get_ref(), into, max).unwrap_or(0);
        self.open = n > 0;
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_whole_last_lines_and_shows_escapes() {
        let many: String = (0..50).map(|i| format!("line {i}\n")).collect();
        let tail = tail_text(many.as_bytes());
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.starts_with("line 30\n") && tail.ends_with("line 49"), "{tail}");
        assert_eq!(tail_text(b"\x1b[31mred\xff\n"), "\\u{1b}[31mred\u{fffd}");
        assert_eq!(tail_text(b""), "");
    }

    #[test]
    fn a_line_that_lost_its_beginning_is_dropped_and_escapes_do_not_swell_the_tail() {
        let long = ["x".repeat(TAIL_BYTES - 4).as_bytes(), b"\nlast"].concat();
        assert_eq!(tail_text(&long), "last");
        assert!(tail_text(&[0x1b; TAIL_BYTES]).len() <= TAIL_BYTES);
        assert_eq!(tail_text("é".repeat(TAIL_BYTES).as_bytes()).chars().next(), Some('é'));
    }
}
