//! Server-sent events: a stream of messages as a response body.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::Stream;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

/// A comment is sent after this much silence, so that proxies do not close the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// A larger message is handed on without a copy, in pieces.
const PIECE: usize = 64 << 10;

/// The state of a stream.
pub(super) trait Read {
    /// The client has read everything before the next chunk.
    fn progress(&self) {}
}

/// What is sent at once: mostly one chunk.
pub(super) struct Chunks(VecDeque<Bytes>);

/// A response whose body is the chunks that `next` returns. Dropping the body drops `state`.
pub(super) fn response<S, F>(state: S, next: impl Fn(S) -> F + Send + 'static) -> Response
where
    S: Read + Send + 'static,
    F: Future<Output = Option<(Chunks, S)>> + Send + 'static,
{
    let mut response = Response::new(Body::from_stream(body_stream(state, next)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn body_stream<S, F>(state: S, next: impl Fn(S) -> F) -> impl Stream<Item = Result<Bytes, Infallible>>
where
    S: Read,
    F: Future<Output = Option<(Chunks, S)>>,
{
    let chunks = Chunks(VecDeque::new());
    futures_util::stream::unfold((state, next, chunks), |(mut state, next, mut chunks)| async move {
        loop {
            if let Some(chunk) = chunks.0.pop_front() {
                state.progress();
                return Some((Ok(chunk), (state, next, chunks)));
            }
            (chunks, state) = next(state).await?;
        }
    })
}

/// Waits for `next`, or returns a keep-alive comment when it takes too long.
pub(super) async fn or_keep_alive<T>(next: impl Future<Output = T>) -> Result<T, Chunks> {
    tokio::time::timeout(KEEP_ALIVE, next).await.map_err(|_| Bytes::from_static(b":\n\n").into())
}

/// One message as an event, in one chunk.
pub(super) fn event(id: Option<&str>, message: &[u8]) -> Chunks {
    let mut out = event_start(id, message.len());
    out.put_slice(message);
    out.put_slice(END);
    out.freeze().into()
}

/// The same without a copy of a long message, for messages that are counted already.
pub(super) fn event_in_pieces(id: Option<&str>, message: &Bytes) -> Chunks {
    if message.len() <= PIECE {
        return event(id, message);
    }
    let pieces = (0..message.len()).step_by(PIECE);
    let pieces = pieces.map(|start| message.slice(start..message.len().min(start + PIECE)));
    let start = event_start(id, 0).freeze();
    Chunks([start].into_iter().chain(pieces).chain([Bytes::from_static(END)]).collect())
}

const END: &[u8] = b"\n\n";

fn event_start(id: Option<&str>, message: usize) -> BytesMut {
    let mut out = BytesMut::with_capacity(message + 48);
    if let Some(id) = id {
        out.put_slice(b"id: ");
        out.put_slice(id.as_bytes());
        out.put_u8(b'\n');
    }
    out.put_slice(b"data: ");
    out
}

/// The first event of a resumable stream: an event id and the retry delay.
pub(super) fn priming(id: &str, retry: Duration) -> Chunks {
    format!("id: {id}\nretry: {}\ndata: \n\n", retry.as_millis()).into()
}

impl<T: Into<Bytes>> From<T> for Chunks {
    fn from(chunk: T) -> Chunks {
        Chunks([chunk.into()].into())
    }
}
