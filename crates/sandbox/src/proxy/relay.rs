//! Copies bytes between the tool and the upstream host, with bounded buffers and an idle timeout.

use super::request::{Request, RequestKind};
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

const BUFFER: usize = 16 << 10;

pub async fn run(mut client: TcpStream, mut upstream: TcpStream, request: Request, idle: Duration) {
    let activity = ActivityTracker(Mutex::new(Instant::now()));
    let (mut from_client, mut to_client) = client.split();
    let (mut from_upstream, mut to_upstream) = upstream.split();
    let upload = async {
        match request.kind {
            RequestKind::Tunnel => {
                to_upstream.write_all(&request.rest).await?;
                activity.copy(&mut from_client, &mut to_upstream, u64::MAX).await?;
                to_upstream.shutdown().await
            }
            RequestKind::Forward { head, body } => {
                // Bytes after the body would be a second request, perhaps for another host: never sent.
                let first = &request.rest[..request.rest.len().min(body.try_into().unwrap_or(usize::MAX))];
                to_upstream.write_all(&head).await?;
                to_upstream.write_all(first).await?;
                activity.copy(&mut from_client, &mut to_upstream, body - first.len() as u64).await
            }
        }
    };
    let download = async {
        activity.copy(&mut from_upstream, &mut to_client, u64::MAX).await?;
        to_client.shutdown().await
    };
    tokio::select! {
        // A forwarded request ends with its response; a tunnel ends when both directions are closed.
        _ = both(upload, download) => {}
        () = activity.idle_for(idle) => {}
    }
}

/// Ends when both have completed or either has failed.
async fn both(
    upload: impl Future<Output = io::Result<()>>,
    download: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    tokio::try_join!(upload, download).map(|_| ())
}

/// Time of the last transfer in either direction.
struct ActivityTracker(Mutex<Instant>);

impl ActivityTracker {
    async fn copy(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        mut left: u64,
    ) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        while left > 0 {
            let room = buffer.len().min(left.try_into().unwrap_or(usize::MAX));
            let count = from.read(&mut buffer[..room]).await?;
            if count == 0 {
                break;
            }
            self.touch();
            to.write_all(&buffer[..count]).await?;
            self.touch();
            left -= count as u64;
        }
        Ok(())
    }

    fn touch(&self) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Instant::now();
    }

    /// Completes when nothing has been transferred for `idle`.
    async fn idle_for(&self, idle: Duration) {
        loop {
            let until = *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) + idle;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until.into()).await;
        }
    }
}
