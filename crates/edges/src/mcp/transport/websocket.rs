//! MCP on a WebSocket: one message per text frame, both eras. Whatever ends the connection ends what runs for it.

use crate::limits;
use crate::mcp::Mcp;
use crate::mcp::lock;
use crate::mcp::send_queue::CloseReason;
use crate::mcp::session::registration::SessionRegistration;
use crate::mcp::transport::duplex::Eras;
use crate::mcp::transport::http::{fail, identity, refuse, text};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::websocket::{self as wire, ClientFrame, Close, FrameLimits, FrameReader, code};

/// Frames of one message: more are no message but a flood.
const MAX_PARTS: usize = 1024;
/// How long the closing handshake may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

const PROTOCOL: &str = "mcp";

/// How long a connection is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebSocketTimeouts {
    /// Silence after which a ping goes out; after as much again the connection is cut.
    pub ping: Duration,
    /// A frame that the client does not take in so long ends the connection.
    pub stalled: Duration,
    /// How long what runs may go on after the stop signal.
    pub drain: Duration,
}

/// A connection that is about to change its protocol, with its entry in the session table.
pub(crate) struct Upgrade {
    connection: OnUpgrade,
    registration: SessionRegistration,
}

/// Answers the handshake. Only with an [`Upgrade`] the connection becomes a WebSocket.
pub(crate) fn upgrade(mcp: &Arc<Mcp>, mut request: Request<Body>) -> (Response, Option<Upgrade>) {
    let accept = match check(request.method(), request.headers()) {
        Ok(accept) => accept,
        Err(refused) => return (*refused, None),
    };
    let Some(registration) = SessionRegistration::open(mcp, identity(request.extensions()), Eras::Both)
    else {
        let failure = Failure::request(503, "there are too many sessions; try again later");
        return (fail(&failure, None), None);
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

/// Serves the connection to its end. `max_message` bounds the bytes of a message.
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

/// What the reading tells the writing.
struct Signals {
    state: Mutex<State>,
    wake: Notify,
}

struct State {
    received: Instant,
    /// What was read is being dealt with, so that nothing more is received meanwhile.
    busy: bool,
    /// The newest ping alone is answered, as the standard allows: a flood of them costs no memory.
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

    /// Resolves when nothing was received until then.
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

/// Returns when the client is gone. After a mistake of the client's the writing has the last word.
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
                // Waits while the client is behind with reading; what takes long runs by itself.
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
        // Little for who says little: most connections are idle.
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

/// Returns the close to end with; `None` when the client takes nothing any more.
async fn write(
    registration: &SessionRegistration,
    signals: &Signals,
    timeouts: WebSocketTimeouts,
    output: &mut (impl AsyncWrite + Unpin),
) -> Option<Close> {
    let mut pinged: Option<Instant> = None;
    loop {
        let frame = tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::Close(close) => return Some(close),
                Signal::Ping(payload) => wire::pong(&payload),
            },
            next = registration.client.send_queue.next() => match next {
                Ok(message) => wire::text(&message),
                Err(CloseReason::TooSlow) => return Some(Close::new(code::POLICY, "messages are not read in time")),
                Err(CloseReason::Finished) => return Some(Close::new(code::GOING_AWAY, "the session is over")),
            },
            () = registration.wait_for_drain(timeouts.drain) => return Some(Close::new(code::GOING_AWAY, "the server stops")),
            () = signals.wait_for_silence(timeouts.ping, pinged) => {
                if pinged.is_some_and(|pinged| !signals.received_since(pinged)) {
                    return Some(Close::new(code::POLICY, "a ping was not answered in time"));
                }
                pinged = Some(Instant::now());
                wire::ping()
            }
        };
        let written = async {
            output.write_all(&frame).await?;
            output.flush().await
        };
        match tokio::time::timeout(timeouts.stalled, written).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return None,
        }
    }
}

/// Says why, and waits a moment for the client to close: data that was never read would make the kernel drop the reason.
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
    // It is over either way.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, sent).await;
}

/// The `Sec-WebSocket-Accept`, or what is wrong with the handshake.
fn check(method: &Method, headers: &HeaderMap) -> Result<HeaderValue, Box<Response>> {
    let has = |name: &HeaderName, word: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
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
