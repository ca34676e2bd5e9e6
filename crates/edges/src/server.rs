//! The HTTP listener: accepts connections within bounds and drains them when told to stop.

use crate::mcp::{self, Mcp};
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
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use toolyard_engine::Engine;

/// Bounds of the listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// Largest request body in bytes.
    pub max_body: usize,
    pub max_connections: usize,
    /// How long a client may take to send its request line and headers.
    pub header_timeout: Duration,
    /// A client that takes nothing of what it is sent for so long is cut off.
    pub stalled: Duration,
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
    let patience = Patience { header: options.header_timeout, stalled: options.stalled };
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
            accepted = accept(&listener, &places) => accepted,
            // Finished connections are collected as we go, so that the set does not grow.
            Some(_) = connections.join_next() => continue,
        };
        let (stream, place) = accepted;
        let (door, stopped) = (door.clone(), stopped.clone());
        connections.spawn(async move {
            connection(stream, door, patience, stopped).await;
            drop(place);
        });
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

/// Waits for a free place first: over the bound, new connections queue in the kernel.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, Place) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            // The semaphore is never closed; waiting for ever is what "no place" means.
            return std::future::pending().await;
        };
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            // Out of file descriptors, or the peer is gone already: both pass.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// How long a client is waited for.
#[derive(Clone, Copy)]
struct Patience {
    header: Duration,
    stalled: Duration,
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

impl Door {
    pub(crate) fn new(app: Arc<App>) -> Door {
        let v1 =
            V1 { engine: app.engine.clone(), resources: app.mcp.resources(), max_body: app.options.max_body };
        let router = TowerToHyperService::new(plain::routes(app.clone()).merge(v1::routes(v1)));
        Door { router, app }
    }

    pub(crate) async fn enter(self, request: Request<Incoming>) -> Result<Response, Infallible> {
        if let Some(refused) = guard::local_only(&request) {
            return Ok(refused);
        }
        if request.uri().path() == "/mcp" {
            return Ok(mcp::handle(&self.app, request.map(Body::new)).await);
        }
        self.router.call(request).await
    }
}

async fn connection(stream: TcpStream, door: Door, patience: Patience, mut stopped: watch::Receiver<bool>) {
    // Without it a small answer waits for the peer's delayed acknowledgement (40 ms).
    let _ = stream.set_nodelay(true);
    cut_when_stalled(&stream, patience.stalled);
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(patience.header)
            .max_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(stream), service_fn(move |request| door.clone().enter(request)))
    );
    tokio::select! {
        // An error here is the peer's: it went away or spoke no HTTP. Nothing to tell anyone.
        _ = &mut connection => return,
        _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
