//! The HTTP listener: accepts connections within bounds and drains them when told to stop.

use crate::mcp::{self, Mcp, Patience, Upgrade};
use crate::peers::{Counted, Peers};
use crate::v1::{self, V1};
use crate::{guard, plain};
use axum::Router;
use axum::body::Body;
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
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use toolyard_engine::Engine;

/// Bounds of the listener.
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
    /// How long a client may take to send its request line and headers, and how long a connection may be idle.
    pub header_timeout: Duration,
    /// A client that takes nothing of what it is sent for so long is cut off.
    pub stalled: Duration,
    /// A WebSocket that is silent for so long is pinged, and cut after as much again.
    pub ping: Duration,
    /// How long running calls may go on after the stop signal.
    pub drain: Duration,
}

/// What request handlers share.
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
    let places = Arc::new(Semaphore::new(options.max_connections));
    let peers = Peers::new(options.max_connections_per_peer);
    let app = Arc::new(App { engine, started: Instant::now(), options, mcp: mcp.clone() });
    let door = Door::new(app);
    let (stopping, stopped) = watch::channel(false);
    let mut connections = tokio::task::JoinSet::new();
    let mut tending = std::pin::pin!(mcp.tend());
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            _ = &mut stop => break,
            () = &mut tending => continue,
            accepted = accept(&listener, &places, &peers) => accepted,
            // Finished connections are collected as we go, so that the set does not grow.
            Some(_) = connections.join_next() => continue,
        };
        let (stream, address, place) = accepted;
        let counted = match peers.count(address, place) {
            Ok(counted) => counted,
            Err(place) => {
                connections.spawn(turn_away(stream, place));
                continue;
            }
        };
        let (door, stopped, caller) = (door.clone(), stopped.clone(), counted.clone());
        counted.may_be_cut(connections.spawn(connection(stream, door, caller, stopped)));
    }
    drop(listener);
    mcp.stop();
    // Fails only when no connection is left to hear it.
    let _ = stopping.send(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(drain, all).await.is_err() {
        connections.shutdown().await;
    }
    mcp.close().await;
}

type Place = tokio::sync::OwnedSemaphorePermit;

/// Waits for a free place first: over the bound, new connections queue in the kernel, and the silent make room.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    peers: &Peers,
) -> (TcpStream, IpAddr, Place) {
    loop {
        if places.available_permits() == 0 {
            peers.make_room();
        }
        let Ok(place) = places.clone().acquire_owned().await else {
            // The semaphore is never closed; waiting for ever is what "no place" means.
            return std::future::pending().await;
        };
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address.ip(), place),
            // Out of file descriptors, or the peer is gone already: both pass.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Says why, and gives the client a moment to read it before its place is free again.
async fn turn_away(mut stream: TcpStream, _place: Place) {
    const WHY: &str = "there are too many connections from this address; close some, or raise \
                       max_connections_per_peer\n";
    let said = async {
        let head = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n";
        let answer = format!("{head}content-type: text/plain\r\ncontent-length: {}\r\n\r\n{WHY}", WHY.len());
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    // It is over either way.
    let _ = tokio::time::timeout(Duration::from_secs(1), said).await;
}

/// The kernel ends the connection when what was sent is not taken in time: by a client that reads no more, or that is
/// gone without a word.
fn cut_when_stalled(stream: &TcpStream, after: Duration) {
    let after = libc::c_uint::try_from(after.as_millis()).unwrap_or(libc::c_uint::MAX);
    let (size, option) = (size_of_val(&after) as libc::socklen_t, std::ptr::from_ref(&after).cast());
    // SAFETY: the descriptor is open, and the pointer and size describe `after`. A kernel that does not know the option
    // refuses it, which leaves its own limit in force.
    unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, option, size);
    }
}

/// Where every request comes in: who may not enter is turned away, and what comes most often goes straight on.
#[derive(Clone)]
pub(crate) struct Door {
    router: TowerToHyperService<Router>,
    app: Arc<App>,
}

/// A connection that goes on as a WebSocket leaves it here.
pub(crate) type Upgraded = Arc<Mutex<Option<Upgrade>>>;

impl Door {
    pub(crate) fn new(app: Arc<App>) -> Door {
        let v1 =
            V1 { engine: app.engine.clone(), resources: app.mcp.resources(), max_body: app.options.max_body };
        let router = TowerToHyperService::new(plain::routes(app.clone()).merge(v1::routes(v1)));
        Door { router, app }
    }

    pub(crate) async fn enter(
        self,
        request: Request<Incoming>,
        upgraded: Upgraded,
    ) -> Result<Response, Infallible> {
        if let Some(refused) = guard::local_only(&request) {
            return Ok(refused);
        }
        Ok(match request.uri().path() {
            "/mcp" => mcp::handle(&self.app, request.map(Body::new)).await,
            "/sse" => mcp::stream(&self.app, &request.map(Body::new)),
            "/messages" => mcp::message(&self.app, request.map(Body::new)).await,
            "/ws" => {
                let (response, upgrade) = mcp::upgrade(&self.app.mcp, request.map(Body::new));
                *upgraded.lock().unwrap_or_else(PoisonError::into_inner) = upgrade;
                response
            }
            _ => return self.router.call(request).await,
        })
    }
}

async fn connection(stream: TcpStream, door: Door, caller: Arc<Counted>, mut stopped: watch::Receiver<bool>) {
    let (options, upgraded) = (door.app.options.clone(), Upgraded::default());
    // Without it a small answer waits for the peer's delayed acknowledgement (40 ms).
    let _ = stream.set_nodelay(true);
    cut_when_stalled(&stream, options.stalled);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout)
        .max_buf_size(options.max_header.max(8192));
    if options.max_headers != HYPERS_HEADERS {
        http.max_headers(options.max_headers);
    }
    let left = upgraded.clone();
    let service = service_fn(|request| {
        caller.speaks();
        door.clone().enter(request, left.clone())
    });
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let over = tokio::select! {
        // An error here is the peer's: it went away or spoke no HTTP. Nothing to tell anyone.
        _ = &mut connection => true,
        _ = stopped.wait_for(|stopped| *stopped) => false,
    };
    if !over {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
    let upgrade = upgraded.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(upgrade) = upgrade {
        // Leaves time for the last words before the connections that are left are cut.
        let drain = options.drain * 3 / 4;
        let patience = Patience { ping: options.ping, stalled: options.stalled, drain };
        mcp::converse(upgrade, options.max_body, patience).await;
    }
}

/// What hyper keeps room for by itself; any other number costs it an allocation per request.
const HYPERS_HEADERS: usize = 100;
