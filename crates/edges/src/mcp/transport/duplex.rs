//! A client on one duplex connection: stdio, legacy HTTP+SSE or a WebSocket. Requests run concurrently, with
//! a handshake or without.

use crate::mcp::messages::Class;
use crate::mcp::running_calls::RunningCalls;
use crate::mcp::send_queue::{CloseReason, SendQueue, Waiting};
use crate::mcp::session::Session;
use crate::mcp::session::caller::MessageSink;
use crate::mcp::session::notification_stream::NotificationStream;
use crate::mcp::stateless::{self, Exchange};
use crate::mcp::{Mcp, lock, session::dispatch};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use toolyard_protocol::Identity;
use toolyard_wire::jsonrpc::{self, Incoming, Message, Notification, Reject, Request, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Method, initialize, meta, notifications, result};

/// How long a client may read nothing while responses wait for space in the queue.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a batch is refused.
pub(super) const NO_BATCHES: &str = "batches exist in revision 2025-03-26 only; send one message at a time";

pub(in crate::mcp) struct DuplexClient {
    pub identity: Identity,
    pub send_queue: Arc<SendQueue>,
    eras: Eras,
    /// Set by the handshake.
    session: OnceLock<Arc<Session>>,
    /// Stateless requests.
    calls: RunningCalls,
    /// When the connection was opened; `None` once a message has arrived.
    unused_since: Mutex<Option<Instant>>,
    /// The client sent a close notification.
    closed: AtomicBool,
}

/// Which revisions a transport carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mcp) enum Eras {
    Handshake,
    Both,
}

impl DuplexClient {
    pub fn new(mcp: &Mcp, identity: Identity, eras: Eras) -> DuplexClient {
        DuplexClient {
            identity,
            send_queue: SendQueue::new(mcp.options.bounds(), STALL_TIMEOUT, &mcp.buffers),
            eras,
            session: OnceLock::new(),
            calls: RunningCalls::default(),
            unused_since: Mutex::new(Some(Instant::now())),
            closed: AtomicBool::new(false),
        }
    }

    /// Handles a message from the client, or a batch if its revision has batches. Waits only while very much of what the
    /// client sent waits already: otherwise a ping or a cancellation is handled whatever the client reads.
    pub async fn receive(&self, mcp: &Arc<Mcp>, text: Bytes) {
        lock(&self.unused_since).take();
        if text.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let size = text.len();
        match jsonrpc::read(&text) {
            Incoming::One(message) => self.handle_message(mcp, message, size).await,
            Incoming::Batch(messages) => {
                let allowed = self.session.get().is_some_and(|session| session.handshake.has_batches());
                if !allowed {
                    return self.send(Reject::invalid(None, NO_BATCHES).write());
                }
                // Each gets a response of its own, as soon as it is ready.
                let each = size / messages.len().max(1);
                for message in messages {
                    self.handle_message(mcp, message, each).await;
                }
            }
        }
    }

    pub fn send(&self, message: Vec<u8>) {
        // Fails when the queue is closed; the transport notices that itself.
        let _ = self.send_queue.send(Class::Answer, message);
    }

    pub fn is_running(&self) -> bool {
        self.calls.any_running() || self.session.get().is_some_and(|session| session.calls.any_running())
    }

    /// Idle time before the first message. After it, the session lives as long as its connection.
    pub fn idle(&self, now: Instant) -> Duration {
        lock(&self.unused_since).map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Whether the client sent a close notification.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Cancels all calls and closes the queue after its messages.
    pub fn close(&self) {
        self.calls.close();
        if let Some(session) = self.session.get() {
            session.close();
        }
        self.send_queue.close(CloseReason::Finished);
    }

    async fn handle_message(&self, mcp: &Arc<Mcp>, message: Result<Message, Reject>, size: usize) {
        match message {
            Ok(Message::Notification(notification)) => self.handle_notification(&notification),
            Ok(Message::Response(response)) => {
                let answer =
                    self.session.get().and_then(|session| dispatch::handle_response(session, response));
                if let Some(answer) = answer {
                    self.send(answer);
                }
            }
            Ok(Message::Request(request)) => match self.session.get() {
                Some(session)
                    if request.method == Method::Ping && meta::version(&request.params).is_none() =>
                {
                    // Fails when the queue is closed.
                    let _ =
                        self.send_queue.send_first(result::empty(&request.id, session.handshake.revision));
                }
                _ => {
                    if let Some(waiting) = self.send_queue.admit(size).await {
                        self.handle_request(mcp, request, waiting).await;
                    }
                }
            },
            Err(reject) => {
                if self.send_queue.admit(0).await.is_some() {
                    self.send(reject.write());
                }
            }
        }
    }

    async fn handle_request(&self, mcp: &Arc<Mcp>, request: Request, waiting: Waiting) {
        let stateless = request.method == Method::Discover || meta::version(&request.params).is_some();
        if stateless && self.eras == Eras::Handshake {
            let what = "HTTP+SSE does not support revision 2026-07-28; POST to /mcp instead";
            self.send(Failure::request(200, what).write(Some(&request.id)));
        } else if stateless && self.is_answered_in_order(&request.method) {
            run_stateless(mcp, self.identity.clone(), request, &self.send_queue).await;
        } else if stateless {
            let (mcp, queue, identity) = (mcp.clone(), self.send_queue.clone(), self.identity.clone());
            let id = request.id.clone();
            let started = self.calls.spawn(id.clone(), async move {
                let space = space_for(&mcp, &request);
                let Some(reservation) = queue.reserve(space).await else { return };
                drop(waiting);
                run_stateless(&mcp, identity, request, &queue).await;
                drop(reservation);
            });
            if !started {
                self.reject_too_many(&id);
            }
        } else if request.method == Method::Initialize {
            self.initialize(mcp, &request);
        } else {
            self.handle_in_session(mcp, request, waiting).await;
        }
    }

    fn handle_notification(&self, notification: &Notification) {
        if let Some(session) = self.session.get() {
            dispatch::handle_notification(session, notification);
            if dispatch::is_close_notification(notification) {
                self.closed.store(true, Ordering::Relaxed);
                self.close();
            }
        }
        if let Some(id) = notifications::read_cancelled(notification) {
            self.calls.cancel(&id);
        }
    }

    fn initialize(&self, mcp: &Arc<Mcp>, request: &Request) {
        let handshake = match initialize::read_initialize(&request.params) {
            Ok(handshake) => handshake,
            Err(message) => return self.send(Failure::params(message).write(Some(&request.id))),
        };
        let session = Arc::new(Session::new(self.identity.clone(), handshake));
        if self.session.set(session.clone()).is_err() {
            let failure = Failure::request(200, "this connection is already initialized");
            return self.send(failure.write(Some(&request.id)));
        }
        self.send(initialize::write_initialize_result(&request.id, &handshake, mcp.server_capabilities()));
        // Ends with the session.
        let mut notifications = NotificationStream::open(mcp, session, None);
        let queue = self.send_queue.clone();
        tokio::spawn(async move {
            while let Some((_, message)) = notifications.next().await {
                send_change(&queue, message).await;
            }
        });
    }

    async fn handle_in_session(&self, mcp: &Arc<Mcp>, request: Request, waiting: Waiting) {
        let Some(session) = self.session.get() else {
            let what = "begin with 'initialize', or send '_meta' as revision 2026-07-28 requires";
            return self.send(Failure::request(200, what).write(Some(&request.id)));
        };
        if self.is_answered_in_order(&request.method) {
            let answer = dispatch::handle_request(mcp, session, &request, MessageSink::Discard).await;
            return self.send(answer);
        }
        let (mcp, queue, session_) = (mcp.clone(), self.send_queue.clone(), session.clone());
        let id = request.id.clone();
        let started = session.calls.spawn(id.clone(), async move {
            let space = space_for(&mcp, &request);
            let Some(reservation) = queue.reserve(space).await else { return };
            drop(waiting);
            let out = MessageSink::Queue(queue.clone());
            let answer = dispatch::handle_request(&mcp, &session_, &request, out).await;
            // Fails when the queue is closed.
            let _ = queue.send(Class::Answer, answer);
            drop(reservation);
        });
        if !started {
            self.reject_too_many(&id);
        }
    }

    /// Whether the method is answered from memory, before the next message is read. All others run in tasks of their own,
    /// and so do these when there is no space for a response now.
    fn is_answered_in_order(&self, method: &Method) -> bool {
        match method {
            Method::SetLogLevel => true,
            Method::ListTools | Method::Discover => self.send_queue.try_reserve(OTHER_RESPONSE).is_some(),
            _ => false,
        }
    }

    fn reject_too_many(&self, id: &RequestId) {
        let failure = Failure::request(200, "too many requests are running; wait for some responses");
        self.send(failure.write(Some(id)));
    }
}

/// The size of other responses, such as lists: an estimate.
const OTHER_RESPONSE: usize = 256 << 10;
/// The size of a resource: the default of `[limits] resource`.
const RESOURCE: usize = 8 << 20;

/// The space that the response to a request needs. A tool's result is in it as text and as structured content.
fn space_for(mcp: &Mcp, request: &Request) -> usize {
    match request.method {
        Method::CallTool => {
            let name = request.params.text("name").ok().flatten().unwrap_or_default();
            space_for_result(mcp, &name, 2)
        }
        Method::ReadResource => RESOURCE.min(most_for_one(mcp)),
        Method::SetLogLevel | Method::Listen => 0,
        _ => OTHER_RESPONSE.min(most_for_one(mcp)),
    }
}

/// The largest result that the tool may have, so many times.
pub(super) fn space_for_result(mcp: &Mcp, tool: &str, copies: usize) -> usize {
    let output = mcp.engine.registry.find(tool).map_or(0, |entry| entry.spec.limits.output);
    output.saturating_mul(copies).min(most_for_one(mcp))
}

/// Several calls always run at once, even of tools that may have very large results.
fn most_for_one(mcp: &Mcp) -> usize {
    mcp.options.max_queued_bytes / 4
}

/// Waits for space: a client must not miss a change. Fails when the queue is closed; then the transport ends too.
async fn send_change(queue: &Arc<SendQueue>, message: Bytes) {
    let space = queue.reserve(message.len()).await;
    queue.send(Class::Required, message);
    drop(space);
}

/// Runs one request of a stateless client to its end.
async fn run_stateless(mcp: &Arc<Mcp>, identity: Identity, request: Request, queue: &Arc<SendQueue>) {
    let id = request.id.clone();
    let begun = match stateless::read_meta(&request) {
        Ok(meta) => stateless::begin(mcp, identity, meta, request).await,
        Err(failure) => Err((id.clone(), failure)),
    };
    let mut exchange = match begun {
        Ok(exchange) => exchange,
        Err((id, failure)) => {
            queue.send(Class::Answer, failure.write(Some(&id)));
            return;
        }
    };
    let is_subscription = matches!(exchange, Exchange::Subscribed(_));
    while let Some(outgoing) = exchange.next(mcp).await {
        if outgoing.class == Class::Required {
            send_change(queue, outgoing.message).await;
        } else {
            queue.send(outgoing.class, outgoing.message);
        }
    }
    if is_subscription {
        // On a shared connection the end of a subscription is a result and a cancellation.
        queue.send(Class::Required, notifications::cancelled(&id, "the server is shutting down"));
    }
}

/// A message is written in pieces of this size.
const PIECE: usize = 64 << 10;

/// Writes a message without copying it, in pieces: each shows that the client reads. Fails when a piece takes longer
/// than `stalled`.
pub(super) async fn write_message(
    queue: &SendQueue,
    head: &[u8],
    message: &[u8],
    stalled: Duration,
    output: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    output.write_all(head).await?;
    for piece in message.chunks(PIECE) {
        tokio::time::timeout(stalled, output.write_all(piece)).await??;
        queue.progress();
    }
    Ok(())
}
