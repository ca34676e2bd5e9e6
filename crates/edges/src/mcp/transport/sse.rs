//! Server-sent events: a stream of messages as a response body.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::Stream;
use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

/// A comment is sent after this much silence, so that proxies do not close the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// A response whose body is the chunks that `next` returns. Dropping the body drops `state`.
pub(super) fn response<S, F>(state: S, next: impl Fn(S) -> F + Send + 'static) -> Response
where
    S: Send + 'static,
    F: Future<Output = Option<(Bytes, S)>> + Send + 'static,
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
    F: Future<Output = Option<(Bytes, S)>>,
{
    futures_util::stream::unfold((state, next), |(state, next)| async move {
        let (bytes, state) = next(state).await?;
        Some((Ok(bytes), (state, next)))
    })
}

/// Waits for `next`, or returns a keep-alive comment when it takes too long.
pub(super) async fn or_keep_alive<T>(next: impl Future<Output = T>) -> Result<T, Bytes> {
    tokio::time::timeout(KEEP_ALIVE, next).await.map_err(|_| Bytes::from_static(b":\n\n"))
}

/// One message as an event.
pub(super) fn event(id: Option<&str>, message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(message.len() + 48);
    if let Some(id) = id {
        out.put_slice(b"id: ");
        out.put_slice(id.as_bytes());
        out.put_u8(b'\n');
    }
    out.put_slice(b"data: ");
    out.put_slice(message);
    out.put_slice(b"\n\n");
    out.freeze()
}

/// The first event of a resumable stream: an event id and the retry delay.
pub(super) fn priming(id: &str, retry: Duration) -> Bytes {
    format!("id: {id}\nretry: {}\ndata: \n\n", retry.as_millis()).into()
}
