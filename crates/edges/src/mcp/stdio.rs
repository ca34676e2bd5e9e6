//! MCP on a pair of pipes: one message per line, both eras, many requests at a time.

use super::calls::Calls;
use super::general::General;
use super::session::Session;
use super::session_caller::Out;
use super::stateless::{self, Course};
use super::turn::Step;
use super::{Mcp, STOPPING, handshake};
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use toolyard_protocol::Identity;
use toolyard_wire::jsonrpc::{self, Incoming, Message, Notification, Reject, Request, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Revision, hello, meta, notifications};

/// Messages that may wait for a slow reader.
const QUEUE: usize = 1000;

const STATELESS: Revision = Revision::V2026_07_28;

/// Serves until the input ends or `stop` resolves; then everything that runs is cancelled. Nothing but messages is
/// written.
pub async fn serve_stdio(
    mcp: Arc<Mcp>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    max_line: usize,
    stop: impl Future<Output = ()>,
) {
    let (line, queue) = mpsc::channel(QUEUE);
    let writer = tokio::spawn(write(queue, output));
    let mut peer = Peer { mcp, line, session: None, general: None, calls: Arc::default(), closed: false };
    let mut input = BufReader::new(input);
    let mut text = Vec::new();
    let mut stop = std::pin::pin!(stop);
    while !writer.is_finished() && !peer.closed {
        let read = tokio::select! {
            read = read_line(&mut input, &mut text, max_line) => read,
            () = &mut stop => Read::End,
        };
        match read {
            Read::Line => peer.receive(Bytes::from(std::mem::take(&mut text))).await,
            Read::TooLong => {
                let what = format!("a line may have at most {max_line} bytes");
                peer.send(Reject::invalid(None, what).write()).await;
            }
            Read::End => break,
        }
    }
    peer.close().await;
    // The writer ends when every sender is gone.
    let _ = tokio::time::timeout(STOPPING, writer).await;
}

/// The one client.
struct Peer {
    mcp: Arc<Mcp>,
    line: mpsc::Sender<Bytes>,
    /// After a handshake.
    session: Option<Arc<Session>>,
    general: Option<JoinHandle<()>>,
    /// Requests without a handshake.
    calls: Arc<Calls>,
    /// The client said that it is done.
    closed: bool,
}

impl Peer {
    async fn receive(&mut self, line: Bytes) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        match jsonrpc::read(&line) {
            Incoming::One(message) => self.message(message).await,
            Incoming::Batch(messages) => {
                let allowed = self.session.as_ref().is_some_and(|session| session.hello.has_batches());
                if !allowed {
                    let what = "batches exist in revision 2025-03-26 only; send one message per line";
                    return self.send(Reject::invalid(None, what).write()).await;
                }
                // Each is answered on a line of its own, as soon as it is done.
                for message in messages {
                    self.message(message).await;
                }
            }
        }
    }

    async fn message(&mut self, message: Result<Message, Reject>) {
        match message {
            Err(reject) => self.send(reject.write()).await,
            Ok(Message::Notification(notification)) => self.notified(&notification),
            Ok(Message::Response(response)) => {
                let answer =
                    self.session.as_ref().and_then(|session| handshake::responded(session, response));
                if let Some(answer) = answer {
                    self.send(answer).await;
                }
            }
            Ok(Message::Request(request)) => {
                let stateless =
                    request.method == "server/discover" || meta::version(&request.params).is_some();
                if stateless {
                    self.without_handshake(request).await;
                } else if request.method == "initialize" {
                    self.initialize(&request).await;
                } else {
                    self.in_session(request).await;
                }
            }
        }
    }

    fn notified(&mut self, notification: &Notification) {
        self.closed |= self.session.is_some() && handshake::is_closed(notification);
        if let Some(session) = &self.session {
            handshake::notified(session, notification);
        }
        if notification.method == "notifications/cancelled"
            && let Some(id) = notification.params.get("requestId").and_then(|raw| RequestId::parse(&raw))
        {
            self.calls.cancel(&id);
        }
    }

    async fn initialize(&mut self, request: &Request) {
        if self.session.is_some() {
            let failure = Failure::request(200, "this connection was initialised already");
            return self.send(failure.write(Some(&request.id))).await;
        }
        let hello = match hello::read_initialize(&request.params) {
            Ok(hello) => hello,
            Err(message) => return self.send(Failure::params(message).write(Some(&request.id))).await,
        };
        let session = Arc::new(Session::new(Identity::local(), hello));
        self.send(hello::write_welcome(&request.id, &hello, self.mcp.offer())).await;
        let mut general = General::open(&self.mcp, session.clone(), None);
        let line = self.line.clone();
        self.session = Some(session);
        self.general = Some(tokio::spawn(async move {
            while let Some((_, message)) = general.next().await {
                if line.send(message).await.is_err() {
                    return;
                }
            }
        }));
    }

    async fn in_session(&self, request: Request) {
        let Some(session) = &self.session else {
            let what = "begin with 'initialize', or send '_meta' as 2026-07-28 demands";
            return self.send(Failure::request(200, what).write(Some(&request.id))).await;
        };
        let (mcp, line, known) = (self.mcp.clone(), self.line.clone(), session.clone());
        let out = Out::Line(line.clone());
        if is_quick(&request.method) {
            return self.send(handshake::answer(&mcp, session, &request, out).await).await;
        }
        let id = request.id.clone();
        let started = session.calls.spawn(id.clone(), async move {
            let answer = handshake::answer(&mcp, &known, &request, out).await;
            // Fails when no one reads any more.
            let _ = line.send(answer.into()).await;
        });
        if !started {
            self.too_many(&id).await;
        }
    }

    async fn without_handshake(&self, request: Request) {
        let id = request.id.clone();
        let (mcp, line) = (self.mcp.clone(), self.line.clone());
        if is_quick(&request.method) {
            return answer(&mcp, request, &line).await;
        }
        let started = self.calls.spawn(id.clone(), async move { answer(&mcp, request, &line).await });
        if !started {
            self.too_many(&id).await;
        }
    }

    async fn too_many(&self, id: &RequestId) {
        let failure = Failure::request(200, "too many requests are running");
        self.send(failure.write(Some(id))).await;
    }

    async fn send(&self, message: Vec<u8>) {
        // Fails when no one reads any more; the next line read finds out.
        let _ = self.line.send(message.into()).await;
    }

    /// Cancels everything and waits until it has stopped.
    async fn close(self) {
        self.calls.close();
        if let Some(session) = &self.session {
            session.close();
        }
        if let Some(general) = &self.general {
            general.abort();
        }
        let running =
            || self.calls.are_running() || self.session.as_ref().is_some_and(|s| s.calls.are_running());
        let stopped = async {
            while running() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(STOPPING, stopped).await;
        self.mcp.close().await;
    }
}

/// Answered from memory, in the order of the lines; everything else runs beside the reading.
fn is_quick(method: &str) -> bool {
    matches!(method, "ping" | "tools/list" | "logging/setLevel" | "server/discover")
}

/// One request of a stateless client, to its end.
async fn answer(mcp: &Arc<Mcp>, request: Request, line: &mpsc::Sender<Bytes>) {
    // Fails when no one reads any more; then the reading ends too, and cancels this.
    let send = async |message: Bytes| drop(line.send(message).await);
    let meta = match stateless::read_meta(&request) {
        Ok(meta) => meta,
        Err(failure) => return send(failure.write(Some(&request.id)).into()).await,
    };
    match stateless::begin(mcp, Identity::local(), meta, request).await {
        Err((id, failure)) => send(failure.write(Some(&id)).into()).await,
        Ok(Course::Done(answer)) => send(answer.into()).await,
        Ok(Course::Listen(mut listening)) => {
            while let Some(message) = listening.next().await {
                send(message).await;
            }
            // On pipes the end of a subscription is told twice: as a result and as a cancellation.
            send(notifications::cancelled(listening.id(), "the server stops").into()).await;
        }
        Ok(Course::Turn(mut under)) => loop {
            match under.turn.step().await {
                Step::Message(message) => send(message).await,
                Step::Asks(questions) => return send(under.park(mcp, &questions).into()).await,
                Step::Ended(said) => return send(said.write(&under.request.id, STATELESS).1.into()).await,
            }
        },
    }
}

enum Read {
    Line,
    TooLong,
    End,
}

/// One line without its end. A line over the limit is skipped to its end without being kept.
async fn read_line(input: &mut (impl AsyncBufReadExt + Unpin), line: &mut Vec<u8>, limit: usize) -> Read {
    line.clear();
    let mut too_long = false;
    loop {
        let Ok(buffer) = input.fill_buf().await else { return Read::End };
        if buffer.is_empty() {
            // A last line without an end counts.
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

async fn write(mut queue: mpsc::Receiver<Bytes>, mut output: impl AsyncWrite + Unpin) {
    while let Some(message) = queue.recv().await {
        let mut line = Vec::with_capacity(message.len() + 1);
        line.extend_from_slice(&message);
        line.push(b'\n');
        if output.write_all(&line).await.is_err() {
            return;
        }
        if queue.is_empty() && output.flush().await.is_err() {
            return;
        }
    }
}
