//! The framed dialect on stdio: messages with a `Content-Length` header, three methods, result envelopes.

use crate::limits::wait_until;
use crate::mcp::messages::Class;
use crate::mcp::running_calls::RunningCalls;
use crate::mcp::send_queue::{CloseReason, SendQueue, Waiting};
use crate::mcp::transport::duplex::{space_for_result, write_message};
use crate::mcp::{Mcp, STOP_TIMEOUT};
use crate::plain_http as routes;
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use toolyard_formats::json;
use toolyard_protocol::{Call, Edge, Error, ErrorKind, NoopCaller, Outcome, RpcError};
use toolyard_wire::framed_dialect;
use toolyard_wire::framing::{self, Decoder, Frame};
use toolyard_wire::jsonrpc::{self, Incoming, Message, Params, Reject, Request};
use toolyard_wire::mcp::failure::Failure;

/// How long a client may read nothing while requests wait for space in the queue.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
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
    let queue = SendQueue::new(mcp.options.bounds(), STALL_TIMEOUT, &mcp.buffers);
    let writer = tokio::spawn(write(queue.clone(), output));
    let client =
        FramedClient { mcp, queue, calls: RunningCalls::default(), started: Instant::now(), max_body };
    let mut decoder = Decoder::new(max_body);
    let mut buffer = vec![0; READ];
    let mut stop = std::pin::pin!(stop);
    while !writer.is_finished() {
        let read = tokio::select! {
            read = input.read(&mut buffer) => read.unwrap_or(0),
            () = &mut stop => break,
            () = client.queue.wait_until_too_slow() => break,
        };
        if read == 0 {
            if !decoder.is_at_frame_boundary() {
                client.refuse("the input ended inside a message");
            }
            break;
        }
        // A client that reads too slowly must not keep the server from stopping.
        tokio::select! {
            is_valid = client.receive(&mut decoder, &buffer[..read]) => if !is_valid { break },
            () = &mut stop => break,
        }
    }
    client.close().await;
    // The writer ends when the queue is empty.
    let _ = tokio::time::timeout(STOP_TIMEOUT, writer).await;
}

struct FramedClient {
    mcp: Arc<Mcp>,
    queue: Arc<SendQueue>,
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
                    self.send(Reject::invalid(None, what).write());
                }
                Err(fault) => {
                    self.refuse(&fault.to_string());
                    return false;
                }
            }
        }
    }

    async fn message(&self, body: &Bytes) {
        // Waits only while very much of what the client sent waits already.
        let Some(waiting) = self.queue.admit(body.len()).await else { return };
        match jsonrpc::read(body) {
            Incoming::One(Ok(Message::Request(request))) => self.request(request, waiting),
            // This dialect has neither notifications nor requests to the client.
            Incoming::One(Ok(Message::Notification(_) | Message::Response(_))) => {}
            Incoming::One(Err(reject)) => self.send(reject.write()),
            Incoming::Batch(_) => {
                self.send(Reject::invalid(None, "send one message at a time").write());
            }
        }
    }

    fn request(&self, request: Request, waiting: Waiting) {
        let Request { id, method, params } = request;
        match method.as_str() {
            "mcp.discover" => {
                let prompts = self.mcp.prompts();
                let document = routes::discovery(&self.mcp.engine, prompts.as_ref(), self.started);
                self.send(jsonrpc::result(&id, document.len(), |out| out.extend_from_slice(&document)));
            }
            "mcp.prompt.get" => {
                let answer = match self.prompt(&params) {
                    Ok(prompt) => jsonrpc::result(&id, prompt.len(), |out| out.extend_from_slice(&prompt)),
                    Err(error) => framed_dialect::write_response(
                        &id,
                        &Outcome::failure(self.mcp.engine.redact_error(error)),
                    ),
                };
                self.send(answer);
            }
            "mcp.tool.invoke" => {
                let (mcp, queue, own) = (self.mcp.clone(), self.queue.clone(), id.clone());
                let started = self.calls.spawn(id.clone(), async move {
                    let tool = params.text("tool").ok().flatten().unwrap_or_default();
                    let space = space_for_result(&mcp, &tool, 1);
                    let Some(reservation) = queue.reserve(space).await else { return };
                    drop(waiting);
                    let outcome = invoke(&mcp, &params).await;
                    // Fails when the queue is closed.
                    let _ = queue.send(Class::Answer, framed_dialect::write_response(&own, &outcome));
                    drop(reservation);
                });
                if !started {
                    let error = Error::new(ErrorKind::Busy, "too many requests are running");
                    self.send(framed_dialect::write_response(&id, &Outcome::failure(error)));
                }
            }
            _ => {
                let mut failure = Failure::unknown_method(method.as_str());
                failure.error.message += "; known methods: mcp.discover, mcp.prompt.get, mcp.tool.invoke";
                self.send(failure.write(Some(&id)));
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
    fn refuse(&self, what: &str) {
        self.send(jsonrpc::error(None, &RpcError::new(jsonrpc::PARSE_ERROR, what)));
    }

    fn send(&self, message: Vec<u8>) {
        // Fails when the queue is closed; the main loop notices that.
        let _ = self.queue.send(Class::Answer, message);
    }

    /// Cancels all calls and waits until they have stopped.
    async fn close(self) {
        self.calls.close();
        wait_until(STOP_TIMEOUT, || !self.calls.any_running()).await;
        self.mcp.close().await;
        self.queue.close(CloseReason::Finished);
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

async fn write(queue: Arc<SendQueue>, mut output: impl AsyncWrite + Unpin) {
    let mut output = BufWriter::new(&mut output);
    while let Ok(message) = queue.next().await {
        let written = async {
            let head = framing::header(message.len());
            write_message(&queue, head.as_bytes(), &message, Duration::MAX, &mut output).await?;
            if queue.is_empty() { output.flush().await } else { Ok(()) }
        };
        if written.await.is_err() {
            return;
        }
    }
}
