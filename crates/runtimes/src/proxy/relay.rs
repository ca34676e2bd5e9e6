//! Copies bytes between the tool and the host it may reach: bounded buffers, cut when nothing moves.

use super::request::{Asked, Request};
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

const BUFFER: usize = 16 << 10;

pub async fn run(mut client: TcpStream, mut upstream: TcpStream, request: Request, idle: Duration) {
    let pulse = Pulse(Mutex::new(Instant::now()));
    let (mut from_client, mut to_client) = client.split();
    let (mut from_upstream, mut to_upstream) = upstream.split();
    let ahead = async {
        match request.asked {
            Asked::Tunnel => {
                to_upstream.write_all(&request.rest).await?;
                pulse.copy(&mut from_client, &mut to_upstream, u64::MAX).await?;
                to_upstream.shutdown().await
            }
            Asked::Forward { head, body } => {
                // What follows the body would be a second request, perhaps for another host: it is never sent.
                let first = &request.rest[..request.rest.len().min(body.try_into().unwrap_or(usize::MAX))];
                to_upstream.write_all(&head).await?;
                to_upstream.write_all(first).await?;
                pulse.copy(&mut from_client, &mut to_upstream, body - first.len() as u64).await
            }
        }
    };
    let back = async {
        pulse.copy(&mut from_upstream, &mut to_client, u64::MAX).await?;
        to_client.shutdown().await
    };
    tokio::select! {
        // The answer's end is the end of a forwarded request; a tunnel ends when both sides are done.
        _ = both(ahead, back) => {}
        () = pulse.stopped(idle) => {}
    }
}

/// Ends when `back` has ended, and `ahead` too unless either of them failed.
async fn both(
    ahead: impl Future<Output = io::Result<()>>,
    back: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    tokio::try_join!(ahead, back).map(|_| ())
}

/// When something last moved, in either direction.
struct Pulse(Mutex<Instant>);

impl Pulse {
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
            self.beat();
            to.write_all(&buffer[..count]).await?;
            self.beat();
            left -= count as u64;
        }
        Ok(())
    }

    fn beat(&self) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Instant::now();
    }

    /// Resolves when nothing has moved for so long.
    async fn stopped(&self, idle: Duration) {
        loop {
            let until = *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) + idle;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until.into()).await;
        }
    }
}
