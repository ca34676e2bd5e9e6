//! MCP on a WebSocket: one message per text frame, both eras. The end of the connection cancels its calls.

use crate::limits;
use crate::mcp::Mcp;
use crate::mcp::lock;
use crate::mcp::send_queue::CloseReason;
use crate::mcp::session::registration::SessionRegistration;
use crate::mcp::transport::duplex::{Eras, write_message};
use crate::mcp::transport::http::{fail, identity, refuse, text, too_many_sessions, words};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::Notify;
use toolyard_wire::websocket::{self as wire, ClientFrame, Close, FrameLimits, FrameReader, code};

/// The most frames of one message.
const MAX_PARTS: usize = 1024;
/// How long the closing handshake may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

const PROTOCOL: &str = "mcp";

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebSocketTimeouts {
    /// Silence after which a ping is sent; after as much again the connection is closed.
    pub ping: Duration,
    /// A frame that the client does not read within this time ends the connection.
    pub stalled: Duration,
    /// How long calls may continue after the stop signal.
    pub drain: Duration,
}

/// A connection that is being upgraded, with its entry in the session table.
pub(crate) struct Upgrade {
    connection: OnUpgrade,
    registration: SessionRegistration,
}

/// Answers the WebSocket handshake. Without an [`Upgrade`] the response is an error.
pub(crate) fn upgrade(mcp: &Arc<Mcp>, mut request: Request<Body>) -> (Response, Option<Upgrade>) {
    let accept = match check(request.method(), request.headers()) {
        Ok(accept) => accept,
        Err(refused) => return (*refused, None),
    };
    let Some(registration) = SessionRegistration::open(mcp, identity(request.extensions()), Eras::Both)
    else {
        return (fail(&too_many_sessions(), None), None);
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    (response, Some(Upgrade { connection: hyper::upgrade::on(&mut request), registration }))
}

/// Serves the connection to its end. `max_message` is the size limit of a message in bytes.
pub(crate) async fn serve_websocket(upgrade: Upgrade, max_message: usize, timeouts: WebSocketTimeouts) {
    let Upgrade { connection, registration } = upgrade;
    let Ok(Ok(connection)) = tokio::time::timeout(CLOSE_TIMEOUT, connection).await else { return };
    let (mut input, mut output) = tokio::io::split(TokioIo::new(connection));
    let signals = Signals::new();
    let closing = tokio::select! {
        () = read(&registration, &signals, max_message, &mut input) => None,
        closing = write(&registration, &signals, timeouts, &mut output) => closing,
    };
    drop(registration);
    if let Some(closing) = closing {
        close_connection(&closing, &mut input, &mut output).await;
    }
}

/// Signals from the reader to the writer.
struct Signals {
    state: Mutex<State>,
    wake: Notify,
}

struct State {
    received: Instant,
    /// A message is being handled; nothing is read meanwhile.
    busy: bool,
    /// Only the newest ping is answered, as RFC 6455 allows, so that a flood of pings costs no memory.
    ping: Option<Bytes>,
    close: Option<Close>,
}

enum Signal {
    Ping(Bytes),
    Close(Close),
}

impl Signals {
    fn new() -> Signals {
        let state = State { received: Instant::now(), busy: false, ping: None, close: None };
        Signals { state: Mutex::new(state), wake: Notify::new() }
    }

    fn received(&self) {
        let mut state = lock(&self.state);
        state.received = Instant::now();
        state.busy = false;
    }

    fn busy(&self) {
        lock(&self.state).busy = true;
    }

    fn ping(&self, payload: Bytes) {
        lock(&self.state).ping = Some(payload);
        self.wake.notify_one();
    }

    fn close(&self, close: Close) {
        lock(&self.state).close = Some(close);
        self.wake.notify_one();
    }

    async fn next(&self) -> Signal {
        loop {
            {
                let mut state = lock(&self.state);
                if let Some(close) = state.close.take() {
                    return Signal::Close(close);
                }
                if let Some(payload) = state.ping.take() {
                    return Signal::Ping(payload);
                }
            }
            self.wake.notified().await;
        }
    }

    /// Resolves after a silence of `ping` since the last data or ping.
    async fn wait_for_silence(&self, ping: Duration, pinged: Option<Instant>) {
        let received = lock(&self.state).received;
        let since = pinged.map_or(received, |pinged| pinged.max(received));
        tokio::time::sleep_until((since + ping).into()).await;
    }

    fn received_since(&self, instant: Instant) -> bool {
        let state = lock(&self.state);
        state.busy || state.received > instant
    }
}

/// Returns when the client disconnects. After a protocol error it never returns: the writer closes.
async fn read(
    registration: &SessionRegistration,
    signals: &Signals,
    max_message: usize,
    input: &mut (impl AsyncRead + Unpin),
) {
    let mut frames = FrameReader::new(FrameLimits { message: max_message, parts: MAX_PARTS });
    let mut message_started: Option<Instant> = None;
    let close = loop {
        match frames.take() {
            Err(close) => break close,
            Ok(Some(ClientFrame::Text(message))) => {
                message_started = None;
                // Waits while the client reads too slowly; long calls run in tasks of their own.
                signals.busy();
                registration.client.receive(&registration.mcp, message).await;
                signals.received();
                continue;
            }
            Ok(Some(ClientFrame::Ping(payload))) => {
                signals.ping(payload);
                continue;
            }
            Ok(Some(ClientFrame::Pong)) => continue,
            Ok(Some(ClientFrame::Close(number))) => break Close::new(number.unwrap_or(code::NORMAL), ""),
            Ok(None) => {}
        }
        message_started =
            if frames.is_mid_message() { message_started.or_else(|| Some(Instant::now())) } else { None };
        let buffer = frames.input();
        // A small buffer at first: most connections are idle.
        buffer.reserve(if buffer.len() < 512 { 1024 } else { 64 << 10 });
        let more = input.read_buf(buffer);
        let read = match message_started {
            None => more.await,
            Some(message_started) => {
                match tokio::time::timeout_at((message_started + limits::BODY_TIMEOUT).into(), more).await {
                    Ok(read) => read,
                    Err(_) => break Close::new(code::POLICY, "a message did not arrive in time"),
                }
            }
        };
        match read {
            Ok(0) | Err(_) => return,
            Ok(_) => signals.received(),
        }
    };
    signals.close(close);
    std::future::pending().await
}

/// Returns the close frame to send; `None` when the client no longer reads.
async fn write(
    registration: &SessionRegistration,
    signals: &Signals,
    timeouts: WebSocketTimeouts,
    output: &mut (impl AsyncWrite + Unpin),
) -> Option<Close> {
    let mut pinged: Option<Instant> = None;
    let queue = &registration.client.send_queue;
    // Joins the header of a frame with a short message; long ones are not copied.
    let mut output = BufWriter::new(output);
    loop {
        let (head, message) = tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::Close(close) => return Some(close),
                Signal::Ping(payload) => (wire::pong(&payload), Bytes::new()),
            },
            next = queue.next() => match next {
                Ok(message) => (wire::text_header(message.len()), message),
                Err(CloseReason::TooSlow) => return Some(too_slow()),
                Err(CloseReason::Finished) => return Some(Close::new(code::GOING_AWAY, "the session has ended")),
            },
            () = registration.wait_for_drain(timeouts.drain) => return Some(Close::new(code::GOING_AWAY, "the server is shutting down")),
            () = signals.wait_for_silence(timeouts.ping, pinged) => {
                if pinged.is_some_and(|pinged| !signals.received_since(pinged)) {
                    return Some(Close::new(code::POLICY, "a ping was not answered in time"));
                }
                pinged = Some(Instant::now());
                (wire::ping(), Bytes::new())
            }
        };
        let written = async {
            write_message(queue, &head, &message, timeouts.stalled, &mut output).await?;
            tokio::time::timeout(timeouts.stalled, output.flush()).await?
        };
        tokio::select! {
            written = written => if written.is_err() { return None },
            // What is written now never arrives, so no close frame can follow it.
            () = queue.wait_until_too_slow() => return None,
        }
    }
}

fn too_slow() -> Close {
    Close::new(code::POLICY, "messages are not read in time")
}

/// Sends the close frame and waits briefly for the client to close: unread data would cause a reset.
async fn close_connection(
    close: &Close,
    input: &mut (impl AsyncRead + Unpin),
    output: &mut (impl AsyncWrite + Unpin),
) {
    let sent = async {
        output.write_all(&wire::close(close)).await?;
        output.shutdown().await?;
        let mut rest = [0; 4096];
        while input.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    // The connection ends in any case.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, sent).await;
}

/// The value of `Sec-WebSocket-Accept`, or an error response.
fn check(method: &Method, headers: &HeaderMap) -> Result<HeaderValue, Box<Response>> {
    let has =
        |name: &HeaderName, word: &str| words(headers, name).any(|part| part.eq_ignore_ascii_case(word));
    if *method != Method::GET || !has(&header::UPGRADE, "websocket") || !has(&header::CONNECTION, "upgrade") {
        let mut response = refuse(
            StatusCode::UPGRADE_REQUIRED,
            "this is a WebSocket; connect with GET and 'Upgrade: websocket'",
        );
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        return Err(Box::new(response));
    }
    if text(headers, &header::SEC_WEBSOCKET_VERSION) != Some("13") {
        let mut response = refuse(StatusCode::UPGRADE_REQUIRED, "send 'Sec-WebSocket-Version: 13'");
        response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Err(Box::new(response));
    }
    let wrong = |what: &str| Box::new(refuse(StatusCode::BAD_REQUEST, what));
    if !has(&header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL) {
        return Err(wrong("ask for the subprotocol 'mcp': send 'Sec-WebSocket-Protocol: mcp'"));
    }
    let key = text(headers, &header::SEC_WEBSOCKET_KEY).and_then(wire::accept);
    let key = key.and_then(|accept| HeaderValue::from_str(&accept).ok());
    key.ok_or_else(|| wrong("'Sec-WebSocket-Key' must be 16 bytes in base64"))
}
