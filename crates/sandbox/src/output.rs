//! Output of a child: stdout up to a cap, and the last lines of stderr.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use toolyard_protocol::text::escape_control;

use super::fds;
use super::output_memory::{OutputMemory, OutputReservation, SMALL};

/// Bytes and lines of stderr that are returned.
const TAIL_BYTES: usize = 2048;
const TAIL_LINES: usize = 20;
/// Maximum read after the tree is dead. More than a pipe holds; bounded because a process outside the tree
/// may have been passed the write end.
const MAX_DRAIN_BYTES: usize = 2 << 20;

/// Bytes per read.
const CHUNK: usize = 64 << 10;

/// stdout, or one line of it, is longer than the cap.
#[derive(Debug)]
pub struct OverCap;

pub struct Stdout {
    pipe: PipeReader,
    bytes: Vec<u8>,
    cap: usize,
    reservation: OutputReservation,
}

impl Stdout {
    pub fn new(fd: OwnedFd, cap: usize, memory: &OutputMemory) -> io::Result<Stdout> {
        let reservation = OutputReservation::new(memory, cap);
        Ok(Stdout { pipe: PipeReader::new(fd)?, bytes: Vec::new(), cap, reservation })
    }

    pub fn is_open(&self) -> bool {
        self.pipe.open
    }

    /// Reads more, or waits for memory.
    pub async fn read(&mut self) -> Result<(), OverCap> {
        let max = self.room().await;
        self.pipe.read(&mut self.bytes, max).await;
        if self.bytes.len() > self.cap { Err(OverCap) } else { Ok(()) }
    }

    /// Whether the output waits for memory.
    pub fn is_waiting(&self) -> bool {
        self.reservation.is_waiting()
    }

    /// Reads the rest of the pipe after the writers are dead.
    pub async fn finish(&mut self) -> Result<Bytes, OverCap> {
        while self.pipe.open && self.bytes.len() <= self.cap {
            let max = self.room().await;
            self.pipe.try_read(&mut self.bytes, max);
        }
        if self.bytes.len() > self.cap {
            return Err(OverCap);
        }
        Ok(self.reservation.hold(std::mem::take(&mut self.bytes)))
    }

    /// How much may be read: one byte beyond the cap, to detect longer output.
    async fn room(&mut self) -> usize {
        let held = self.bytes.len();
        self.reservation.room(held).await.min(self.cap.saturating_add(1) - held)
    }
}

/// stdout line by line, for a session.
pub struct Lines {
    pipe: PipeReader,
    bytes: Vec<u8>,
    /// Start of the next line, and the end of the part already searched for a line break.
    start: usize,
    scanned: usize,
    cap: usize,
    /// Bytes that may still be read after the writers are dead.
    drain_left: usize,
    /// For the line that is being read.
    reservation: OutputReservation,
}

impl Lines {
    pub fn new(fd: OwnedFd, cap: usize, memory: &OutputMemory) -> io::Result<Lines> {
        let (pipe, reservation) = (PipeReader::new(fd)?, OutputReservation::new(memory, cap));
        let drain_left = MAX_DRAIN_BYTES;
        Ok(Lines { pipe, bytes: Vec::new(), start: 0, scanned: 0, cap, drain_left, reservation })
    }

    pub fn is_open(&self) -> bool {
        self.pipe.open
    }

    /// The next complete line that was read; at the end of the pipe also a last line without line break.
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
        if end - self.start > self.cap {
            return Err(OverCap);
        }
        let line = if end - self.start < SMALL {
            Bytes::copy_from_slice(&self.bytes[self.start..end])
        } else {
            let rest = self.bytes.split_off(next);
            let mut line = std::mem::replace(&mut self.bytes, rest);
            line.truncate(end);
            let line = self.reservation.hold(line).slice(self.start..);
            (self.start, self.scanned) = (0, 0);
            return Ok(Some(line));
        };
        (self.start, self.scanned) = (next, next);
        Ok(Some(line))
    }

    /// Whether a line waits for memory.
    pub fn is_waiting(&self) -> bool {
        self.reservation.is_waiting()
    }

    /// Reads more, or waits for memory. To bound memory, call it only after [`Lines::next`] returned `None`.
    pub async fn fill(&mut self) {
        let max = self.reservation.room(self.bytes.len()).await.min(CHUNK);
        self.pipe.read(&mut self.bytes, max).await;
    }

    /// Reads more after the writers are dead; `false` at the end.
    pub async fn fill_rest(&mut self) -> bool {
        let room = self.reservation.room(self.bytes.len()).await;
        let max = CHUNK.min(self.drain_left).min(room);
        let n = if self.pipe.open && max > 0 { self.pipe.try_read(&mut self.bytes, max) } else { 0 };
        self.drain_left -= n;
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

    /// Reads the rest of the pipe after the writers are dead.
    pub fn finish(mut self) -> String {
        let mut left = MAX_DRAIN_BYTES;
        while self.pipe.open && left > 0 {
            left = left.saturating_sub(self.pipe.try_read(&mut self.tail, TAIL_BYTES));
            self.truncate_tail();
        }
        tail_text(&self.tail)
    }

    /// Leaves one byte more than is shown, to tell whether the first line is complete.
    fn truncate_tail(&mut self) {
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES + 1);
        self.tail.drain(..surplus);
    }
}

/// The last lines. An incomplete first line is dropped unless it is the only one.
fn tail_text(tail: &[u8]) -> String {
    let cut = match tail.len() > TAIL_BYTES {
        true => tail.iter().position(|&b| b == b'\n').map_or(1, |i| i + 1),
        false => 0,
    };
    let text = escape_control(&String::from_utf8_lossy(&tail[cut.min(tail.len())..]));
    let text = text.trim_end();
    let lines = text.rmatch_indices('\n').nth(TAIL_LINES - 1).map_or(0, |(i, _)| i + 1);
    // Escaping makes the text longer.
    let bytes = text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES));
    text[lines.max(bytes)..].to_owned()
}

/// The read end of a pipe. An error counts as end of file; the launcher's record tells how the program ended.
struct PipeReader {
    fd: AsyncFd<OwnedFd>,
    open: bool,
}

impl PipeReader {
    fn new(fd: OwnedFd) -> io::Result<PipeReader> {
        fds::set_nonblocking(&fd)?;
        Ok(PipeReader { fd: fds::register(fd, Interest::READABLE)?, open: true })
    }

    /// Cancel-safe: it waits first and reads in the same poll.
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
    fn the_tail_has_complete_last_lines_and_visible_escapes() {
        let many: String = (0..50).map(|i| format!("line {i}\n")).collect();
        let tail = tail_text(many.as_bytes());
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.starts_with("line 30\n") && tail.ends_with("line 49"), "{tail}");
        assert_eq!(tail_text(b"\x1b[31mred\xff\n"), "\\u{1b}[31mred\u{fffd}");
        assert_eq!(tail_text(b""), "");
    }

    #[test]
    fn an_incomplete_first_line_is_dropped_and_escapes_count_towards_the_tail() {
        let long = ["x".repeat(TAIL_BYTES - 4).as_bytes(), b"\nlast"].concat();
        assert_eq!(tail_text(&long), "last");
        assert!(tail_text(&[0x1b; TAIL_BYTES]).len() <= TAIL_BYTES);
        assert_eq!(tail_text("é".repeat(TAIL_BYTES).as_bytes()).chars().next(), Some('é'));
    }
}
