//! The framed dialect on stdio: messages with a `Content-Length` header, three methods, result envelopes.

use crate::limits::wait_until;
use crate::mcp::running_calls::RunningCalls;
use crate::mcp::{Mcp, STOP_TIMEOUT};
use crate::plain_http as routes;
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use toolyard_formats::json;
use toolyard_protocol::{Call, Edge, Error, ErrorKind, NoopCaller, Outcome, RpcError};
use toolyard_wire::framed_dialect;
use toolyard_wire::framing::{self, Decoder, Frame};
use toolyard_wire::jsonrpc::{self, Incoming, Message, Params, Reject, Request};
use toolyard_wire::mcp::failure::Failure;

/// Queued messages for a slow reader.
const QUEUE: usize = 1000;
const READ: usize = 16 * 1024;

/// Serves until the input ends, its framing is invalid or `stop` resolves, then cancels all calls. Writes
/// nothing but messages.
pub async fn serve_framed(
    mcp: Arc<Mcp>,
    mut input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    max_body: usize,
    stop: impl Future<Output = ()>,
) {
    let (outgoing, queue) = mpsc::channel(QUEUE);
    let writer = tokio::spawn(write(queue, output));
    let client =
        FramedClient { mcp, outgoing, calls: RunningCalls::default(), started: Instant::now(), max_body };
    let mut decoder = Decoder::new(max_body);
    let mut buffer = vec![0; READ];
    let mut stop = std::pin::pin!(stop);
    while !writer.is_finished() {
        let read = tokio::select! {
            read = input.read(&mut buffer) => read.unwrap_or(0),
            () = &mut stop => break,
        };
        if read == 0 {
            if !decoder.is_at_frame_boundary() {
                client.refuse("the input ended inside a message").await;
            }
            break;
        }
        if !client.receive(&mut decoder, &buffer[..read]).await {
            break;
        }
    }
    client.close().await;
    // The writer ends when all senders are dropped.
    let _ = tokio::time::timeout(STOP_TIMEOUT, writer).await;
}

struct FramedClient {
    mcp: Arc<Mcp>,
    outgoing: mpsc::Sender<Bytes>,
    calls: RunningCalls,
    started: Instant,
    max_body: usize,
}

impl FramedClient {
    /// `false` when the framing is invalid, so that no later message can be found.
    async fn receive(&self, decoder: &mut Decoder, mut bytes: &[u8]) -> bool {
        loop {
            match decoder.next(&mut bytes) {
                Ok(None) => return true,
                Ok(Some(Frame::Body(body))) => self.message(&body.into()).await,
                Ok(Some(Frame::TooLong(length))) => {
                    let most = self.max_body;
                    let what = format!("a message may have at most {most} bytes; this one had {length}");
                    self.send(Reject::invalid(None, what).write()).await;
                }
                Err(fault) => {
                    self.refuse(&fault.to_string()).await;
                    return false;
                }
            }
        }
    }

    async fn message(&self, body: &Bytes) {
        match jsonrpc::read(body) {
            Incoming::One(Ok(Message::Request(request))) => self.request(request).await,
            // This dialect has neither notifications nor requests to the client.
            Incoming::One(Ok(Message::Notification(_) | Message::Response(_))) => {}
            Incoming::One(Err(reject)) => self.send(reject.write()).await,
            Incoming::Batch(_) => {
                self.send(Reject::invalid(None, "send one message at a time").write()).await;
            }
        }
    }

    async fn request(&self, request: Request) {
        let Request { id, method, params } = request;
        match method.as_str() {
            "mcp.discover" => {
                let prompts = self.mcp.prompts();
                let document = routes::discovery(&self.mcp.engine, prompts.as_ref(), self.started);
                self.send(jsonrpc::result(&id, document.len(), |out| out.extend_from_slice(&document))).await;
            }
            "mcp.prompt.get" => {
                let answer = match self.prompt(&params) {
                    Ok(prompt) => jsonrpc::result(&id, prompt.len(), |out| out.extend_from_slice(&prompt)),
                    Err(error) => framed_dialect::write_response(
                        &id,
                        &Outcome::failure(self.mcp.engine.redact_error(error)),
                    ),
                };
                self.send(answer).await;
            }
            "mcp.tool.invoke" => {
                let (mcp, outgoing, own) = (self.mcp.clone(), self.outgoing.clone(), id.clone());
                let started = self.calls.spawn(id.clone(), async move {
                    let outcome = invoke(&mcp, &params).await;
                    // Fails when the writer has ended.
                    let _ = outgoing.send(framed_dialect::write_response(&own, &outcome).into()).await;
                });
                if !started {
                    let error = Error::new(ErrorKind::Busy, "too many requests are running");
                    self.send(framed_dialect::write_response(&id, &Outcome::failure(error))).await;
                }
            }
            _ => {
                let mut failure = Failure::unknown_method(&method);
                failure.error.message += "; known methods: mcp.discover, mcp.prompt.get, mcp.tool.invoke";
                self.send(failure.write(Some(&id))).await;
            }
        }
    }

    fn prompt(&self, params: &Params) -> Result<Vec<u8>, Error> {
        let wrong = |what: String| Error::new(ErrorKind::InvalidInput, what);
        let (domain, name) =
            (params.required_text("domain").map_err(wrong)?, params.required_text("name").map_err(wrong)?);
        let major = params.get("major").ok_or_else(|| wrong("'major' is missing".to_owned()))?;
        // A number, or a string of digits.
        let major = jsonrpc::text(&major).unwrap_or_else(|| String::from_utf8_lossy(&major).into_owned());
        routes::prompt_text(self.mcp.prompts().as_ref(), &domain, &name, &major)
    }

    /// Reports invalid framing.
    async fn refuse(&self, what: &str) {
        self.send(jsonrpc::error(None, &RpcError::new(jsonrpc::PARSE_ERROR, what))).await;
    }

    async fn send(&self, message: Vec<u8>) {
        // Fails when the writer has ended; the main loop notices that.
        let _ = self.outgoing.send(message.into()).await;
    }

    /// Cancels all calls and waits until they have stopped.
    async fn close(self) {
        self.calls.close();
        wait_until(STOP_TIMEOUT, || !self.calls.any_running()).await;
        self.mcp.close().await;
    }
}

async fn invoke(mcp: &Mcp, params: &Params) -> Outcome {
    let refuse = |error: Error| Outcome::failure(mcp.engine.redact_error(error));
    let tool = match params.required_text("tool") {
        Ok(tool) => tool,
        Err(what) => return refuse(Error::new(ErrorKind::InvalidInput, what)),
    };
    let payload = params.get("payload").unwrap_or_else(|| Bytes::from_static(b"{}"));
    match json::arguments(payload) {
        Ok(payload) => {
            let call = Call::new(mcp.engine.call_id(), tool, payload, Edge::Mcp);
            mcp.engine.run(call, &NoopCaller).await
        }
        Err(error) => refuse(error),
    }
}

async fn write(mut queue: mpsc::Receiver<Bytes>, mut output: impl AsyncWrite + Unpin) {
    while let Some(message) = queue.recv().await {
        if output.write_all(&framing::write(&message)).await.is_err() {
            return;
        }
        if queue.is_empty() && output.flush().await.is_err() {
            return;
        }
    }
}
