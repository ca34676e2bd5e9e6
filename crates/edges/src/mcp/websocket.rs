//! MCP on a WebSocket: one message per text frame, both eras. Whatever ends the connection ends what runs for it.

use super::Mcp;
use super::backlog::End;
use super::http::{fail, identity, refuse, text};
use super::line::Line;
use super::lock;
use super::peer::Eras;
use crate::body;
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
use toolyard_wire::websocket::{self as wire, Bounds, Close, Frames, Got, code};

/// Frames of one message: more are no message but a flood.
const MAX_PARTS: usize = 1024;
/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(1);

const PROTOCOL: &str = "mcp";

/// How long a connection is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Silence after which a ping goes out; after as much again the connection is cut.
    pub ping: Duration,
    /// A frame that the client does not take in so long ends the connection.
    pub stalled: Duration,
    /// How long what runs may go on after the stop signal.
    pub drain: Duration,
}

/// A connection that is about to change its protocol, with its place among the sessions.
pub(crate) struct Upgrade {
    connection: OnUpgrade,
    line: Line,
}

/// Answers the handshake. Only with an [`Upgrade`] the connection becomes a WebSocket.
pub(crate) fn upgrade(mcp: &Arc<Mcp>, mut request: Request<Body>) -> (Response, Option<Upgrade>) {
    let accept = match check(request.method(), request.headers()) {
        Ok(accept) => accept,
        Err(refused) => return (*refused, None),
    };
    let Some(line) = Line::open(mcp, identity(request.extensions()), Eras::Both) else {
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
    (response, Some(Upgrade { connection: hyper::upgrade::on(&mut request), line }))
}

/// Serves the connection to its end. `max_message` bounds the bytes of a message.
pub(crate) async fn converse(upgrade: Upgrade, max_message: usize, patience: Patience) {
    let Upgrade { connection, line } = upgrade;
    let Ok(Ok(connection)) = tokio::time::timeout(FAREWELL, connection).await else { return };
    let (mut input, mut output) = tokio::io::split(TokioIo::new(connection));
    let signals = Signals::new();
    let closing = tokio::select! {
        () = read(&line, &signals, max_message, &mut input) => None,
        closing = write(&line, &signals, patience, &mut output) => closing,
    };
    drop(line);
    if let Some(closing) = closing {
        farewell(&closing, &mut input, &mut output).await;
    }
}

/// What the reading tells the writing.
struct Signals {
    state: Mutex<State>,
    wake: Notify,
}

struct State {
    heard: Instant,
    /// What was read is being dealt with, so that nothing more is heard meanwhile.
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
        let state = State { heard: Instant::now(), busy: false, ping: None, close: None };
        Signals { state: Mutex::new(state), wake: Notify::new() }
    }

    fn heard(&self) {
        let mut state = lock(&self.state);
        state.heard = Instant::now();
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

    /// Resolves when nothing was heard until then.
    async fn silence(&self, ping: Duration, pinged: Option<Instant>) {
        let heard = lock(&self.state).heard;
        let since = pinged.map_or(heard, |pinged| pinged.max(heard));
        tokio::time::sleep_until((since + ping).into()).await;
    }

    fn heard_since(&self, instant: Instant) -> bool {
        let state = lock(&self.state);
        state.busy || state.heard > instant
    }
}

/// Returns when the client is gone. After a mistake of the client's the writing has the last word.
async fn read(line: &Line, signals: &Signals, max_message: usize, input: &mut (impl AsyncRead + Unpin)) {
    let mut frames = Frames::new(Bounds { message: max_message, parts: MAX_PARTS });
    let mut begun: Option<Instant> = None;
    let close = loop {
        match frames.take() {
            Err(close) => break close,
            Ok(Some(Got::Text(message))) => {
                begun = None;
                // Waits while the client is behind with reading; what takes long runs by itself.
                signals.busy();
                line.peer.receive(&line.mcp, message).await;
                signals.heard();
                continue;
            }
            Ok(Some(Got::Ping(payload))) => {
                signals.ping(payload);
                continue;
            }
            Ok(Some(Got::Pong)) => continue,
            Ok(Some(Got::Close(number))) => break Close::new(number.unwrap_or(code::NORMAL), ""),
            Ok(None) => {}
        }
        begun = if frames.is_amid() { begun.or_else(|| Some(Instant::now())) } else { None };
        let buffer = frames.input();
        // Little for who says little: most connections are idle.
        buffer.reserve(if buffer.len() < 512 { 1024 } else { 64 << 10 });
        let more = input.read_buf(buffer);
        let read = match begun {
            None => more.await,
            Some(begun) => match tokio::time::timeout_at((begun + body::TIMEOUT).into(), more).await {
                Ok(read) => read,
                Err(_) => break Close::new(code::POLICY, "a message did not arrive in time"),
            },
        };
        match read {
            Ok(0) | Err(_) => return,
            Ok(_) => signals.heard(),
        }
    };
    signals.close(close);
    std::future::pending().await
}

/// Returns the close to end with; `None` when the client takes nothing any more.
async fn write(
    line: &Line,
    signals: &Signals,
    patience: Patience,
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
            next = line.peer.backlog.next() => match next {
                Ok(message) => wire::text(&message),
                Err(End::TooSlow) => return Some(Close::new(code::POLICY, "messages are not read in time")),
                Err(End::Over) => return Some(Close::new(code::GOING_AWAY, "the session is over")),
            },
            () = line.stopped(patience.drain) => return Some(Close::new(code::GOING_AWAY, "the server stops")),
            () = signals.silence(patience.ping, pinged) => {
                if pinged.is_some_and(|pinged| !signals.heard_since(pinged)) {
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
        match tokio::time::timeout(patience.stalled, written).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return None,
        }
    }
}

/// Says why, and waits a moment for the client to close: data that was never read would make the kernel drop the reason.
async fn farewell(
    close: &Close,
    input: &mut (impl AsyncRead + Unpin),
    output: &mut (impl AsyncWrite + Unpin),
) {
    let said = async {
        output.write_all(&wire::close(close)).await?;
        output.shutdown().await?;
        let mut rest = [0; 4096];
        while input.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    // It is over either way.
    let _ = tokio::time::timeout(FAREWELL, said).await;
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
