//! A forward proxy through which a tool reaches the hosts listed in its file, and no others.
//!
//! It accepts `CONNECT host:port` and absolute-form HTTP/1.1 requests. Names are resolved here, after the
//! rules allowed them, so a tool can neither query a name server nor choose the address behind a name.

mod relay;
mod request;
mod rules;
mod upstream;

pub use rules::{HostRules, Reachable, RequestedHost, RequestedHosts, RuleError};

use request::{Request, RequestKind};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use upstream::{Resolve, SystemResolver};

/// Bounds of one tool's proxy.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    connections: usize,
    header_time: Duration,
    connect_time: Duration,
    idle: Duration,
}

const BOUNDS: Bounds = Bounds {
    connections: 64,
    header_time: Duration::from_secs(10),
    connect_time: Duration::from_secs(10),
    idle: Duration::from_secs(60),
};

/// Serves until the future is dropped, which closes its connections.
pub async fn serve(listener: TcpListener, reachable: Reachable) {
    serve_with(listener, reachable, Arc::new(SystemResolver), BOUNDS).await;
}

/// Environment variables that point programs to the proxy; programs that ignore them have no network.
pub fn environment(port: u16, rules: &HostRules) -> Vec<(OsString, OsString)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let set = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let set = set.into_iter().map(|name| (name.into(), OsString::from(&proxy)));
    // The tool's own loopback, unless a rule means the machine's. Empty, not absent: some programs have default
    // exceptions.
    let direct = if rules.names_loopback() { "" } else { "localhost,127.0.0.1,::1" };
    set.chain(["NO_PROXY", "no_proxy"].map(|name| (name.into(), direct.into()))).collect()
}

async fn serve_with(listener: TcpListener, reachable: Reachable, resolve: Arc<dyn Resolve>, bounds: Bounds) {
    let permits = Arc::new(Semaphore::new(bounds.connections));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        // Excess connections queue in the kernel's backlog.
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Out of descriptors, or the peer has disconnected: both are temporary.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let (reachable, resolve) = (reachable.clone(), resolve.clone());
        connections.spawn(async move {
            connection(stream, &reachable, resolve.as_ref(), bounds).await;
            drop(permit);
        });
    }
}

/// Why a request is not forwarded, in one line for the tool's author.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// Denied by the rules, or malformed.
    Forbidden(String),
    /// Allowed, but the connection failed.
    Unreachable(String),
}

async fn connection(mut client: TcpStream, reachable: &Reachable, resolve: &dyn Resolve, bounds: Bounds) {
    let _ = client.set_nodelay(true);
    match open(&mut client, reachable, resolve, bounds).await {
        // Both peers see the result; nothing else needs it.
        Ok((request, upstream)) => relay::run(client, upstream, request, bounds.idle).await,
        Err(refusal) => refuse(client, refusal).await,
    }
}

/// Reads the request and connects to its host if the rules allow it.
async fn open(
    client: &mut TcpStream,
    reachable: &Reachable,
    resolve: &dyn Resolve,
    bounds: Bounds,
) -> Result<(Request, TcpStream), Refusal> {
    let read = tokio::time::timeout(bounds.header_time, request::read(client));
    let request = read.await.map_err(|_| Refusal::Forbidden("the request took too long to arrive".into()))?;
    let request = request.map_err(Refusal::Forbidden)?;
    let upstream =
        upstream::connect(reachable, &request.host, request.port, resolve, bounds.connect_time).await?;
    let _ = upstream.set_nodelay(true);
    if let RequestKind::Tunnel = request.kind {
        let sent = client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await;
        sent.map_err(|error| Refusal::Unreachable(error.to_string()))?;
    }
    Ok((request, upstream))
}

async fn refuse(mut client: TcpStream, refusal: Refusal) {
    let (status, reason) = match refusal {
        Refusal::Forbidden(reason) => ("403 Forbidden", reason),
        Refusal::Unreachable(reason) => ("502 Bad Gateway", reason),
    };
    let length = reason.len() + 1;
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{reason}\n"
    );
    let finish = async {
        client.write_all(response.as_bytes()).await?;
        client.shutdown().await?;
        // Closing with unread bytes would reset the connection and discard the response.
        let mut rest = [0; 4096];
        for _ in 0..16 {
            if client.read(&mut rest).await? == 0 {
                break;
            }
        }
        std::io::Result::Ok(())
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), finish).await;
}

#[cfg(test)]
mod tests;
