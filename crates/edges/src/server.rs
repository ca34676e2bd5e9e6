//! The HTTP listener: accepts connections within bounds and drains them when told to stop.

use crate::mcp::Mcp;
use crate::v1::{self, V1};
use crate::{guard, plain};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
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
    let header_timeout = options.header_timeout;
    let app = Arc::new(App { engine, started: Instant::now(), options, mcp: mcp.clone() });
    let v1 = V1 { engine: app.engine.clone(), resources: mcp.resources(), max_body: app.options.max_body };
    let router = plain::routes(app).merge(v1::routes(v1)).layer(axum::middleware::from_fn(guard::local_only));
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
        let (router, stopped) = (router.clone(), stopped.clone());
        connections.spawn(async move {
            connection(stream, router, header_timeout, stopped).await;
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

async fn connection(
    stream: TcpStream,
    router: Router,
    header_timeout: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    // Without it a small answer waits for the peer's delayed acknowledgement (40 ms).
    let _ = stream.set_nodelay(true);
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .max_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
    );
    tokio::select! {
        // An error here is the peer's: it went away or spoke no HTTP. Nothing to tell anyone.
        _ = &mut connection => return,
        _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
