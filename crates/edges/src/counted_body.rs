//! The body of a response whose bytes count until the client has read them.

use crate::buffers::{Buffers, Held, Holder, Share};
use crate::connection_limits::Connection;
use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

/// A smaller chunk costs no more than its connection does, and is not counted.
pub(crate) const COUNTED: usize = 4096;

/// Large chunks are handed on in pieces, which shows whether the client reads.
const PIECE: usize = 64 << 10;

/// Marks a response whose messages are counted already.
#[derive(Clone)]
pub(crate) struct AlreadyCounted;

/// Counts the chunks of a response's body, except small ones.
pub(crate) fn count(response: Response, buffers: &Arc<Buffers>, connection: &Arc<Connection>) -> Response {
    if response.extensions().get::<AlreadyCounted>().is_some() {
        return response;
    }
    let (buffers, connection) = (buffers.clone(), connection.clone());
    response
        .map(|inner| Body::new(CountedBody { inner, rest: Bytes::new(), reader: None, buffers, connection }))
}

struct CountedBody {
    inner: Body,
    /// What is left of the current chunk.
    rest: Bytes,
    /// Set by the first chunk that counts.
    reader: Option<Arc<Reader>>,
    buffers: Arc<Buffers>,
    connection: Arc<Connection>,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(chunk) if chunk.len() < COUNTED => return Poll::Ready(Some(Ok(Frame::data(chunk)))),
                    Ok(chunk) => self.rest = self.reader().count(chunk),
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return other,
            }
        } else {
            self.reader().touch();
        }
        let size = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

impl CountedBody {
    fn reader(&mut self) -> Arc<Reader> {
        let (buffers, connection) = (&self.buffers, &self.connection);
        self.reader.get_or_insert_with(|| Reader::new(buffers, connection.clone())).clone()
    }
}

/// A client that is sent a large response.
struct Reader {
    connection: Arc<Connection>,
    share: Share,
    state: Mutex<State>,
}

struct State {
    bytes: usize,
    since: Instant,
    released: bool,
}

impl Reader {
    fn new(buffers: &Arc<Buffers>, connection: Arc<Connection>) -> Arc<Reader> {
        Arc::new_cyclic(|reader: &std::sync::Weak<Reader>| Reader {
            connection,
            share: buffers.register(reader.clone()),
            state: Mutex::new(State { bytes: 0, since: Instant::now(), released: false }),
        })
    }

    /// The same chunk, which counts until its last piece is dropped.
    fn count(self: Arc<Self>, chunk: Bytes) -> Bytes {
        self.change(|state| state.bytes += chunk.len());
        self.share.make_room();
        Bytes::from_owner(CountedChunk { chunk, reader: self })
    }

    fn touch(&self) {
        self.state().since = Instant::now();
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        state.since = Instant::now();
        self.share.set(state.bytes);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holder for Reader {
    fn held(&self) -> Option<Held> {
        let state = self.state();
        let holds = !state.released && state.bytes > 0;
        holds.then_some(Held { bytes: state.bytes, kept: false, since: state.since })
    }

    fn release(&self) {
        let mut state = self.state();
        state.released = true;
        self.share.leave();
        drop(state);
        self.connection.disconnect("it reads too slowly, and max_buffered_bytes is reached");
    }
}

struct CountedChunk {
    chunk: Bytes,
    reader: Arc<Reader>,
}

impl AsRef<[u8]> for CountedChunk {
    fn as_ref(&self) -> &[u8] {
        &self.chunk
    }
}

impl Drop for CountedChunk {
    fn drop(&mut self) {
        self.reader.change(|state| state.bytes -= self.chunk.len());
    }
}
