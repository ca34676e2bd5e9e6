//! The HTTP listener: accepts connections within limits and drains them on the stop signal.

use crate::connection_limits::{Connection, ConnectionGuard, ConnectionLimits};
use crate::counted_body;
use crate::limits::{HeadFault, HeadReader, RequestHead};
use crate::mcp::{self, Mcp, Upgrade, WebSocketTimeouts};
use crate::{routes, v1};
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use toolyard_engine::Engine;
use toolyard_protocol::{Error, ErrorKind, Identity};
use tracing::warn;

/// Target of the log events about connections and requests.
pub(crate) const TARGET: &str = "toolyard::http";

/// Limits of the listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// Largest request body in bytes.
    pub max_body: usize,
    pub max_connections: usize,
    /// Connections of one address.
    pub max_connections_per_peer: usize,
    /// Bytes of a request line with its headers; at least 8,192.
    pub max_header: usize,
    /// Headers of a request.
    pub max_headers: usize,
    /// How long a client may take to send its request line and headers; also the idle timeout.
    pub header_timeout: Duration,
    /// A client that reads nothing of what it is sent for this long is disconnected.
    pub stalled: Duration,
    /// A WebSocket that is silent for this long is pinged, and closed after as much again.
    pub ping: Duration,
    /// How long running calls may continue after the stop signal.
    pub drain: Duration,
    pub auth: Auth,
}

/// Who may use the server: the yard's token tells its owner from other users and programs of this machine.
#[derive(Clone)]
pub struct Auth {
    pub policy: TokenPolicy,
    pub token: String,
}

/// What an HTTP client needs the yard's token for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenPolicy {
    /// For guarded tools.
    Guarded,
    /// For everything but `/healthz`.
    All,
    /// For nothing: every client has the rights of the owner.
    Off,
}

impl Auth {
    /// The caller of a request; `None` when it needs the token and has sent none or another one.
    fn identify(&self, headers: &HeaderMap) -> Option<Identity> {
        if self.policy == TokenPolicy::Off || self.has_token(headers) {
            return Some(Identity::local());
        }
        (self.policy == TokenPolicy::Guarded).then(Identity::anonymous)
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        let Some((scheme, token)) = value.as_bytes().split_at_checked(7) else { return false };
        // In constant time, so that the time taken tells nothing about the token.
        let different = token.iter().zip(self.token.as_bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        scheme.eq_ignore_ascii_case(b"bearer ") && token.len() == self.token.len() && different == 0
    }
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// The state shared by request handlers.
pub(crate) struct App {
    pub engine: Arc<Engine>,
    pub started: Instant,
    pub options: Options,
    pub mcp: Arc<Mcp>,
}

/// Serves until `stop` resolves, then waits for the calls in flight, at most `options.drain`.
/// Calls still running after that are cancelled: their futures are dropped, which kills the tools.
pub async fn serve(
    listener: TcpListener,
    engine: Arc<Engine>,
    mcp: Arc<Mcp>,
    options: Options,
    stop: impl Future<Output = ()>,
) {
    let drain = options.drain;
    let permits = Arc::new(Semaphore::new(options.max_connections));
    let limits = ConnectionLimits::new(options.max_connections_per_peer);
    let app = Arc::new(App { engine, started: Instant::now(), options, mcp: mcp.clone() });
    let http_service = HttpService::new(app);
    let (stopping, stopped) = watch::channel(false);
    let mut connections = tokio::task::JoinSet::new();
    let mut maintenance = std::pin::pin!(mcp.run_maintenance());
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            _ = &mut stop => break,
            () = &mut maintenance => continue,
            accepted = accept(&listener, &permits, &limits) => accepted,
            // Finished connections are removed, so that the set does not grow.
            Some(_) = connections.join_next() => continue,
        };
        let (stream, address, permit) = accepted;
        let admitted = match limits.admit(address, permit) {
            Ok(admitted) => admitted,
            Err(permit) => {
                warn!(target: TARGET, client = %address, "connection refused: too many from this address");
                connections.spawn(refuse_connection(stream, permit));
                continue;
            }
        };
        let (http_service, stopped, connection_guard) =
            (http_service.clone(), stopped.clone(), admitted.clone());
        admitted.allow_eviction(connections.spawn(connection(
            stream,
            http_service,
            connection_guard,
            stopped,
        )));
    }
    drop(listener);
    mcp.stop();
    // Fails only when no connection is open.
    let _ = stopping.send(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(drain, all).await.is_err() {
        connections.shutdown().await;
    }
    mcp.close().await;
}

type Permit = tokio::sync::OwnedSemaphorePermit;

/// Waits for a permit first: excess connections queue in the kernel; idle ones are closed first.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    limits: &ConnectionLimits,
) -> (TcpStream, IpAddr, Permit) {
    let mut is_logged = false;
    loop {
        if permits.available_permits() == 0 {
            limits.evict_idle();
        }
        let Ok(permit) = permits.clone().acquire_owned().await else {
            // The semaphore is never closed, so this is not reached.
            return std::future::pending().await;
        };
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address.ip(), permit),
            // Out of file descriptors, or the client disconnected: both are temporary.
            Err(error) => {
                if !std::mem::replace(&mut is_logged, true) {
                    warn!(target: TARGET, "cannot accept connections: {error}");
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Responds with 503 and waits briefly until the client has read it, before the permit is released.
async fn refuse_connection(mut stream: TcpStream, _permit: Permit) {
    let error = Error::new(ErrorKind::Busy, "there are too many connections from this address")
        .hint("close some, or raise [server] max_connections_per_peer");
    let body = v1::error_body(&error);
    let sent = async {
        let head = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n";
        let length = body.len();
        let head = format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(&[head.as_bytes(), &body].concat()).await?;
        stream.shutdown().await?;
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    // The connection ends in any case.
    let _ = tokio::time::timeout(Duration::from_secs(1), sent).await;
}

/// The kernel closes the connection when sent data is not acknowledged in time: the client reads nothing, or
/// disappeared.
fn set_tcp_user_timeout(stream: &TcpStream, after: Duration) {
    let after = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
    // A kernel without the option returns an error, and its default stays in force.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, after);
}

/// HTTP entry point: checks Host and Origin, dispatches MCP paths, leaves the rest to axum.
#[derive(Clone)]
pub(crate) struct HttpService {
    router: TowerToHyperService<Router>,
    app: Arc<App>,
}

/// Where the service leaves a WebSocket upgrade for its connection.
pub(crate) type UpgradeSlot = Arc<Mutex<Option<Upgrade>>>;

impl HttpService {
    pub(crate) fn new(app: Arc<App>) -> HttpService {
        HttpService { router: TowerToHyperService::new(routes::all(&app)), app }
    }

    /// `head` tells whether the connection may be used again.
    pub(crate) async fn handle(
        self,
        mut request: Request<Incoming>,
        head: Result<bool, HeadFault>,
        upgrade_slot: UpgradeSlot,
        connection: Arc<Connection>,
    ) -> Result<Response, Infallible> {
        let mut response = match (self.reject(&mut request, head), request.uri().path()) {
            (Some(refused), _) => refused,
            (None, routes::MCP) => mcp::handle(&self.app, request.map(Body::new), &connection).await,
            (None, routes::SSE) => mcp::open_legacy_stream(&self.app, &request.map(Body::new), &connection),
            // Boxed, so that the future of every other request stays small: it is moved several times.
            (None, routes::MESSAGES) => {
                Box::pin(mcp::post_legacy_message(&self.app, request.map(Body::new))).await
            }
            (None, routes::WEB_SOCKET) => {
                let (response, upgrade) = mcp::upgrade(&self.app.mcp, request.map(Body::new));
                *upgrade_slot.lock().unwrap_or_else(PoisonError::into_inner) = upgrade;
                response
            }
            (None, _) => self.router.call(request).await?,
        };
        if head != Ok(true) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        // Small responses, nearly all, are not counted.
        let most = response.body().size_hint().upper();
        if most.is_some_and(|most| most < counted_body::COUNTED as u64) {
            return Ok(response);
        }
        Ok(counted_body::count(response, self.app.mcp.buffers(), &connection))
    }

    /// Refuses what may not pass; else the request gets the identity of its caller.
    fn reject(&self, request: &mut Request<Incoming>, head: Result<bool, HeadFault>) -> Option<Response> {
        if let Err(fault) = head {
            return Some(refuse_head(request.uri().path(), fault));
        }
        if let Some(refused) = reject_non_local(request) {
            return Some(refused);
        }
        match self.app.options.auth.identify(request.headers()) {
            Some(identity) => drop(request.extensions_mut().insert(identity)),
            None if request.uri().path() == routes::HEALTH => {}
            None => return Some(needs_token(request.uri().path())),
        }
        None
    }
}

async fn connection(
    stream: TcpStream,
    http_service: HttpService,
    connection_guard: Arc<ConnectionGuard>,
    mut stopped: watch::Receiver<bool>,
) {
    let (options, upgrade_slot) = (http_service.app.options.clone(), UpgradeSlot::default());
    let _counted = http_service.app.mcp.buffers().connect();
    // Otherwise a small response waits for the client's delayed acknowledgement (40 ms).
    let _ = stream.set_nodelay(true);
    set_tcp_user_timeout(&stream, options.stalled);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout)
        .max_buf_size(options.max_header.max(8192));
    if options.max_headers != HYPER_DEFAULT_MAX_HEADERS {
        http.max_headers(options.max_headers);
    }
    let service_slot = upgrade_slot.clone();
    let is_first = AtomicBool::new(true);
    let head = RequestHead::new(options.max_header);
    let stream = HeadReader { stream, head: head.clone() };
    let service = service_fn(|request: Request<Incoming>| {
        if is_first.swap(false, Ordering::Relaxed) {
            connection_guard.mark_active();
        }
        let checked = head.check(request.headers().len(), request.body().size_hint().exact());
        let (service, slot) = (http_service.clone(), service_slot.clone());
        service.handle(request, checked, slot, connection_guard.connection.clone())
    });
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let finished = tokio::select! {
        // An error means that the client disconnected or did not speak HTTP.
        _ = &mut connection => true,
        _ = stopped.wait_for(|stopped| *stopped) => false,
    };
    if !finished {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
    let upgrade = upgrade_slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(upgrade) = upgrade {
        // Leaves time for the closing handshake before the remaining connections are aborted.
        let drain = options.drain * 3 / 4;
        let timeouts = WebSocketTimeouts { ping: options.ping, stalled: options.stalled, drain };
        // Boxed, because every connection would have to be large enough for it.
        Box::pin(mcp::serve_websocket(upgrade, options.max_body, timeouts)).await;
    }
}

/// Hyper's default; any other number costs an allocation per request.
const HYPER_DEFAULT_MAX_HEADERS: usize = 100;

/// Rejects a Host or Origin that is not this machine (DNS rebinding, cross-site requests by web pages).
fn reject_non_local<B>(request: &Request<B>) -> Option<Response> {
    let what = refusal(request.headers(), request.uri().host())?;
    let header = |name| request.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let (host, origin) = (header(header::HOST), header(header::ORIGIN));
    warn!(target: TARGET, host = host.as_deref(), origin = origin.as_deref(), "request refused: {what}");
    let error = Error::new(ErrorKind::Forbidden, what).hint("call the server by a name of this machine");
    Some(routes::refuse(request.uri().path(), error))
}

fn refuse_head(path: &str, fault: HeadFault) -> Response {
    let (status, what, hint) = match fault {
        HeadFault::TooLarge => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "the request line and headers are larger than max_header",
            "send shorter headers, or raise [server] max_header",
        ),
        HeadFault::BareLineFeed => (
            StatusCode::BAD_REQUEST,
            "a line of the request head ends with LF alone, or is empty",
            "end each line with CR LF",
        ),
    };
    warn!(target: TARGET, "request refused: {what}");
    let mut response = routes::refuse(path, Error::new(ErrorKind::InvalidInput, what).hint(hint));
    *response.status_mut() = status;
    response
}

fn needs_token(path: &str) -> Response {
    let error = Error::new(ErrorKind::Unauthenticated, "every request to this server needs the yard's token")
        .hint("send the header 'Authorization: Bearer TOKEN'; 'toolyard token' prints the token");
    let mut response = routes::refuse(path, error);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn refusal(headers: &HeaderMap, uri_host: Option<&str>) -> Option<&'static str> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST).or(uri_host);
    if !host.is_some_and(|host| is_local(strip_port(host))) {
        return Some("the Host header does not name this machine; use localhost or 127.0.0.1");
    }
    if headers.get_all(header::HOST).iter().count() > 1 {
        return Some("there is more than one Host header");
    }
    let origin = text(header::ORIGIN)?;
    if headers.get_all(header::ORIGIN).iter().count() > 1 {
        return Some("there is more than one Origin header");
    }
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    (!host.is_some_and(|host| is_local(strip_port(host))))
        .then_some("requests from other origins are refused")
}

fn strip_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => name,
        _ => host,
    }
}

fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_pass() {
        for (host, origin, passes) in [
            (Some("localhost:3333"), None, true),
            (Some("127.0.0.1"), None, true),
            (Some("[::1]:3333"), Some("http://localhost:5173"), true),
            (None, None, false),
            (Some("evil.example"), None, false),
            (Some("localhost.evil.example"), None, false),
            (Some("127.0.0.1:3333@evil.example"), None, false),
            (Some("localhost:3333"), Some("https://evil.example"), false),
            (Some("localhost:3333"), Some("null"), false),
            (Some("localhost:3333"), Some("http://localhost.evil.example"), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(host) = host {
                headers.insert(header::HOST, host.parse().unwrap());
            }
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(refusal(&headers, None).is_none(), passes, "{host:?} {origin:?}");
        }
    }
}
