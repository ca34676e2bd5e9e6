//! Limits of requests: size of head and body, timeouts.
//!
//! The HTTP library takes a bare LF for the end of a line and reads past its bound in one go. A proxy in front may see
//! other lines, and so other requests, in such bytes; so the bytes of each head are checked on their way to the library.

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use memchr::memmem::Finder;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use toolyard_protocol::{Error, ErrorKind};

/// How long a client may take to send a body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    TooLarge,
    TooSlow,
    /// The connection ended, or the chunks are no chunks.
    Broken,
}

/// A smaller body is copied: as part of the connection's buffer, it would keep all of it in memory.
const COPIED: usize = 4096;

/// Stops reading at the limit.
pub async fn read_body(body: Body, limit: usize) -> Result<Bytes, BodyError> {
    match with_timeout(BODY_TIMEOUT, to_bytes(body, limit)).await {
        Some(Ok(body)) if body.len() < COPIED => Ok(Bytes::copy_from_slice(&body)),
        Some(Ok(body)) => Ok(body),
        Some(Err(error)) if is_from_connection(&error) => Err(BodyError::Broken),
        Some(Err(_)) => Err(BodyError::TooLarge),
        None => Err(BodyError::TooSlow),
    }
}

/// Whether the HTTP connection failed, and not the limit.
fn is_from_connection(error: &axum::Error) -> bool {
    std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source())
        .any(|error| error.is::<hyper::Error>())
}

impl BodyError {
    pub fn message(self, limit: usize) -> String {
        match self {
            BodyError::TooLarge => format!("the request body is over {limit} bytes"),
            BodyError::Broken => "the request body is broken or incomplete".to_owned(),
            BodyError::TooSlow => {
                format!("the request body did not arrive within {} s", BODY_TIMEOUT.as_secs())
            }
        }
    }

    /// For routes that respond with Toolyard's own errors.
    pub fn to_error(self, limit: usize) -> Error {
        let kind = match self {
            BodyError::TooLarge => ErrorKind::InputTooLarge,
            BodyError::TooSlow => ErrorKind::Timeout,
            BodyError::Broken => ErrorKind::InvalidInput,
        };
        Error::new(kind, self.message(limit))
    }
}

/// How often a future is polled before a timer is set.
const POLLS_BEFORE_TIMER: u32 = 3;

/// The interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// `None` when `work` takes longer than `limit`.
///
/// Nearly all requests finish within a poll or two, and a timer costs more than polling.
pub async fn with_timeout<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut polls = 1;
    let done = std::future::poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if polls == POLLS_BEFORE_TIMER => Poll::Ready(None),
        Poll::Pending => {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    });
    match done.await {
        Some(done) => Some(done),
        None => tokio::time::timeout(limit, work).await.ok(),
    }
}

/// Waits until `is_done` returns true, at most `limit`. Cancelled tasks stop at their next step, so the first
/// checks follow without a pause.
pub async fn wait_until(limit: Duration, mut is_done: impl FnMut() -> bool) {
    for _ in 0..POLLS_BEFORE_TIMER {
        if is_done() {
            return;
        }
        tokio::task::yield_now().await;
    }
    let over = async {
        while !is_done() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let _ = tokio::time::timeout(limit, over).await;
}

const END: &[u8] = b"\r\n\r\n";
/// Built once: that takes longer than a search.
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(END));

/// The head that is being read, shared by the stream and the service that gets the request.
pub(crate) struct RequestHead {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: usize,
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
    pub fn check(&self, headers: usize, body: Option<u64>) -> Result<bool, HeadFault> {
        let mut state = self.state();
        let head = std::mem::take(&mut *state);
        if head.bytes > self.max {
            return Err(HeadFault::TooLarge);
        }
        // The request line, the headers and the empty line. The library has checked that every CR is followed by an LF.
        if head.carriage_returns != headers + 2 {
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
            && let Some(at) = FINDER.find(&joint[..before + first])
        {
            return Some(at + END.len() - before);
        }
        let end = FINDER.find(bytes).map(|at| at + END.len());
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

    async fn slow(time: Duration) -> u8 {
        tokio::time::sleep(time).await;
        2
    }

    #[tokio::test]
    async fn work_is_stopped_at_its_timeout() {
        let (short, long) = (Duration::from_millis(20), Duration::from_secs(60));
        assert_eq!(with_timeout(short, async { 1 }).await, Some(1));
        assert_eq!(with_timeout(long, slow(short)).await, Some(2));
        assert_eq!(with_timeout(short, slow(long)).await, None);
    }

    #[tokio::test]
    async fn a_condition_is_waited_for_until_the_limit() {
        let mut polls = 0;
        wait_until(Duration::from_secs(60), || {
            polls += 1;
            polls > 5
        })
        .await;
        assert_eq!(polls, 6);
        wait_until(Duration::from_millis(20), || false).await;
    }

    #[test]
    fn work_that_yields_needs_no_timer() {
        // This runtime has no clock: setting a timer would panic.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let steps = async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            3
        };
        assert_eq!(runtime.block_on(with_timeout(Duration::ZERO, steps)), Some(3));
    }

    const GET: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    const HEADERS: usize = 1;

    fn check(parts: &[&[u8]], body: Option<u64>) -> Result<bool, HeadFault> {
        let head = RequestHead::new(64);
        parts.iter().for_each(|part| head.read(part));
        head.check(HEADERS, body)
    }

    #[test]
    fn a_bare_line_feed_and_a_large_head_are_faults() {
        assert_eq!(check(&[GET.as_bytes()], Some(0)), Ok(true));
        for bare in ["GET / HTTP/1.1\nhost: localhost\n\n", "GET / HTTP/1.1\r\nhost: localhost\n\r\n"] {
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
                        prop_assert_eq!(head.check(HEADERS, Some(size as u64)), expected);
                        is_checked = true;
                    }
                }
            }
        }
    }
}
