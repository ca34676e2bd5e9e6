//! Checks the bytes of each request head on their way to the HTTP library, which takes a bare LF for the end of a line
//! and reads past its bound in one go. A proxy in front may see other lines, and so other requests, in such bytes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const END: &[u8] = b"\r\n\r\n";

/// The head that is being read, shared by the stream and the service that gets the request.
pub(crate) struct RequestHead {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: usize,
    line_feeds: usize,
    carriage_returns: usize,
    /// The last bytes, in which the end of the head may begin.
    last: [u8; END.len() - 1],
    /// Bytes since the end of the head; `None` before it.
    after: Option<usize>,
    /// What is left of a body whose head was checked.
    body: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    TooLarge,
    BareLineFeed,
}

impl RequestHead {
    pub fn new(max: usize) -> Arc<RequestHead> {
        Arc::new(RequestHead { max, state: Mutex::default() })
    }

    /// Checks the head of a request that the HTTP library has parsed, and expects the next one after a body of this
    /// length. `Ok(false)` when the connection must not be used again: the next head may have been read already.
    pub fn check(&self, body: Option<u64>) -> Result<bool, HeadFault> {
        let mut state = self.state();
        let head = std::mem::take(&mut *state);
        if head.bytes > self.max {
            return Err(HeadFault::TooLarge);
        }
        // The library has checked that every CR is followed by an LF.
        if head.line_feeds != head.carriage_returns {
            return Err(HeadFault::BareLineFeed);
        }
        let (after, body) = (head.after.unwrap_or(0) as u64, body.unwrap_or(0));
        state.body = body.saturating_sub(after);
        Ok(after <= body)
    }

    fn read(&self, bytes: &[u8]) {
        let mut state = self.state();
        let body = usize::try_from(state.body).unwrap_or(usize::MAX).min(bytes.len());
        state.body -= body as u64;
        state.read(&bytes[body..], self.max);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn read(&mut self, bytes: &[u8], max: usize) {
        if let Some(after) = &mut self.after {
            *after = after.saturating_add(bytes.len());
            return;
        }
        // A head that is too large is refused anyway; what follows a WebSocket's handshake is no head.
        if bytes.is_empty() || self.bytes > max {
            return;
        }
        let end = self.end(bytes);
        let head = &bytes[..end.unwrap_or(bytes.len())];
        self.bytes += head.len();
        self.line_feeds += memchr::memchr_iter(b'\n', head).count();
        self.carriage_returns += memchr::memchr_iter(b'\r', head).count();
        self.after = end.map(|end| bytes.len() - end);
    }

    /// Where the head ends in these bytes.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut joint = [0; 2 * (END.len() - 1)];
        let (before, first) = (self.last.len(), bytes.len().min(self.last.len()));
        joint[..before].copy_from_slice(&self.last);
        joint[before..before + first].copy_from_slice(&bytes[..first]);
        if self.bytes > 0
            && let Some(at) = memchr::memmem::find(&joint[..before + first], END)
        {
            return Some(at + END.len() - before);
        }
        let end = memchr::memmem::find(bytes, END).map(|at| at + END.len());
        self.last.copy_from_slice(match bytes.len().checked_sub(before) {
            Some(from) => &bytes[from..],
            None => &joint[first..before + first],
        });
        end
    }
}

/// A stream whose bytes are shown to [`RequestHead`].
pub(crate) struct HeadReader<S> {
    pub stream: S,
    pub head: Arc<RequestHead>,
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadReader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.head.read(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadReader<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GET: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

    fn check(parts: &[&[u8]], body: Option<u64>) -> Result<bool, HeadFault> {
        let head = RequestHead::new(64);
        parts.iter().for_each(|part| head.read(part));
        head.check(body)
    }

    #[test]
    fn a_bare_line_feed_and_a_large_head_are_faults() {
        assert_eq!(check(&[GET.as_bytes()], Some(0)), Ok(true));
        for bare in ["GET / HTTP/1.1\nhost: localhost\n\n", "GET / HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n"]
        {
            assert_eq!(check(&[bare.as_bytes()], Some(0)), Err(HeadFault::BareLineFeed), "{bare:?}");
        }
        let large = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(64));
        assert_eq!(check(&[large.as_bytes()], Some(0)), Err(HeadFault::TooLarge));
    }

    #[test]
    fn a_connection_is_not_used_again_when_the_next_head_was_not_checked() {
        let two = format!("{GET}{GET}");
        assert_eq!(check(&[two.as_bytes()], Some(0)), Ok(false));
        assert_eq!(
            check(&[GET.as_bytes(), b"4\r\nabcd\r\n"], None),
            Ok(false),
            "chunks have no known length"
        );
        let with_body = format!("{GET}\n\n\n\n");
        assert_eq!(check(&[with_body.as_bytes()], Some(4)), Ok(true), "a body may hold anything");
    }

    proptest! {
        #[test]
        fn however_the_bytes_arrive_each_head_is_checked(
            cuts in prop::collection::vec(1..40_usize, 0..20), bodies in prop::collection::vec(0..50_usize, 1..5),
            is_bare: bool,
        ) {
            let head = RequestHead::new(64);
            let mut cuts = cuts.into_iter();
            let last = bodies.len() - 1;
            for (number, size) in bodies.into_iter().enumerate() {
                let bare = is_bare && number == last;
                let text = if bare { GET.replacen("\r\n", "\n", 1) } else { GET.to_owned() };
                let all = [text.as_bytes(), &vec![b'\n'; size]].concat();
                let mut rest = &all[..];
                let mut is_checked = false;
                while !rest.is_empty() {
                    let part = cuts.next().unwrap_or(rest.len()).min(rest.len());
                    let read = all.len() - rest.len() + part;
                    head.read(&rest[..part]);
                    rest = &rest[part..];
                    // The library parses a head as soon as it is complete.
                    if !is_checked && read >= text.len() {
                        let expected = if bare { Err(HeadFault::BareLineFeed) } else { Ok(true) };
                        prop_assert_eq!(head.check(Some(size as u64)), expected);
                        is_checked = true;
                    }
                }
            }
        }
    }
}
