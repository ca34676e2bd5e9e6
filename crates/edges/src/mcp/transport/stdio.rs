//! MCP on stdio: one message per line, both eras, concurrent requests.

use crate::limits::wait_until;
use crate::mcp::send_queue::SendQueue;
use crate::mcp::transport::duplex::{DuplexClient, Eras, write_message};
use crate::mcp::{Mcp, STOP_TIMEOUT};
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use toolyard_protocol::Identity;
use toolyard_wire::jsonrpc::Reject;

/// Serves until the input ends or `stop` resolves, then cancels all calls. Writes nothing but messages.
pub async fn serve_stdio(
    mcp: Arc<Mcp>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    max_line: usize,
    stop: impl Future<Output = ()>,
) {
    let client = DuplexClient::new(&mcp, Identity::local(), Eras::Both);
    let writer = tokio::spawn(write(client.send_queue.clone(), output));
    let mut input = BufReader::new(input);
    let mut text = Vec::new();
    let mut stop = std::pin::pin!(stop);
    while !writer.is_finished() && !client.is_closed() {
        let read = tokio::select! {
            read = read_line(&mut input, &mut text, max_line) => read,
            () = &mut stop => Read::End,
            () = client.send_queue.wait_until_too_slow() => Read::End,
        };
        match read {
            Read::Line => {
                // A client that reads too slowly must not keep the server from stopping.
                tokio::select! {
                    () = client.receive(&mcp, Bytes::from(std::mem::take(&mut text))) => {}
                    () = &mut stop => break,
                }
            }
            Read::TooLong => {
                let what = format!("a line may have at most {max_line} bytes");
                client.send(Reject::invalid(None, what).write());
            }
            Read::End => break,
        }
    }
    close(&mcp, &client).await;
    // The writer ends when the queue is empty.
    let _ = tokio::time::timeout(STOP_TIMEOUT, writer).await;
}

/// Cancels all calls and waits until they have stopped.
async fn close(mcp: &Mcp, client: &DuplexClient) {
    client.close();
    wait_until(STOP_TIMEOUT, || !client.is_running()).await;
    mcp.close().await;
}

enum Read {
    Line,
    TooLong,
    End,
}

/// Reads one line without its newline. A line over the limit is skipped without being buffered.
async fn read_line(input: &mut (impl AsyncBufReadExt + Unpin), line: &mut Vec<u8>, limit: usize) -> Read {
    line.clear();
    let mut too_long = false;
    loop {
        let Ok(buffer) = input.fill_buf().await else { return Read::End };
        if buffer.is_empty() {
            // The last line may lack a newline.
            return match (too_long, line.is_empty()) {
                (true, _) => Read::TooLong,
                (false, true) => Read::End,
                (false, false) => Read::Line,
            };
        }
        let end = buffer.iter().position(|&b| b == b'\n');
        let part = end.unwrap_or(buffer.len());
        too_long |= line.len() + part > limit;
        if too_long {
            *line = Vec::new();
        } else {
            line.extend_from_slice(&buffer[..part]);
        }
        input.consume(end.map_or(part, |end| end + 1));
        if end.is_some() {
            return if too_long { Read::TooLong } else { Read::Line };
        }
    }
}

async fn write(send_queue: Arc<SendQueue>, mut output: impl AsyncWrite + Unpin) {
    let mut output = BufWriter::new(&mut output);
    while let Ok(message) = send_queue.next().await {
        let written = async {
            write_message(&send_queue, b"", &message, Duration::MAX, &mut output).await?;
            output.write_all(b"\n").await?;
            if send_queue.is_empty() { output.flush().await } else { Ok(()) }
        };
        if written.await.is_err() {
            return;
        }
    }
}
