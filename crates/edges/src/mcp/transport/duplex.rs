//! A client on one duplex connection: stdio, legacy HTTP+SSE or a WebSocket. Requests run concurrently, with
//! a handshake or without.

use crate::mcp::running_calls::RunningCalls;
use crate::mcp::send_queue::{Bounds, CloseReason, Reservation, ReserveError, SendQueue};
use crate::mcp::session::Session;
use crate::mcp::session::caller::MessageSink;
use crate::mcp::session::notification_stream::NotificationStream;
use crate::mcp::stateless::{self, CallEvent, Started};
use crate::mcp::{Mcp, lock, session::dispatch};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use toolyard_protocol::Identity;
use toolyard_wire::jsonrpc::{self, Incoming, Message, Notification, Reject, Request, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{initialize, meta, notifications};

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
        let options = &mcp.options;
        let bounds = Bounds {
            messages: options.max_queued,
            bytes: options.max_queued_bytes,
            stall_timeout: STALL_TIMEOUT,
        };
        DuplexClient {
            identity,
            send_queue: Arc::new(SendQueue::new(bounds)),
            eras,
            session: OnceLock::new(),
            calls: RunningCalls::default(),
            unused_since: Mutex::new(Some(Instant::now())),
            closed: AtomicBool::new(false),
        }
    }

    /// Handles a message from the client, or a batch if its revision has batches.
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
                    return self.send(Reject::invalid(None, NO_BATCHES).write()).await;
                }
                // Each gets a response of its own, as soon as it is ready.
                let each = size / messages.len().max(1);
                for message in messages {
                    self.handle_message(mcp, message, each).await;
                }
            }
        }
    }

    pub async fn send(&self, message: Vec<u8>) {
        // Fails when the queue is closed; the transport notices that itself.
        let _ = self.send_queue.send(message.into()).await;
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
            Err(reject) => self.send(reject.write()).await,
            Ok(Message::Notification(notification)) => self.handle_notification(&notification),
            Ok(Message::Response(response)) => {
                let answer =
                    self.session.get().and_then(|session| dispatch::handle_response(session, response));
                if let Some(answer) = answer {
                    self.send(answer).await;
                }
            }
            Ok(Message::Request(request)) => match self.send_queue.reserve(size).await {
                Ok(reservation) => self.handle_request(mcp, request, reservation).await,
                Err(ReserveError::Busy) => self.reject_too_many(&request.id).await,
                Err(ReserveError::Closed) => {}
            },
        }
    }

    async fn handle_request(&self, mcp: &Arc<Mcp>, request: Request, reservation: Reservation) {
        let stateless = request.method == "server/discover" || meta::version(&request.params).is_some();
        if stateless && self.eras == Eras::Handshake {
            let what = "HTTP+SSE does not support revision 2026-07-28; POST to /mcp instead";
            self.send(Failure::request(200, what).write(Some(&request.id))).await;
        } else if stateless {
            self.handle_stateless(mcp, request, reservation).await;
        } else if request.method == "initialize" {
            self.initialize(mcp, &request).await;
        } else {
            self.handle_in_session(mcp, request, reservation).await;
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

    async fn initialize(&self, mcp: &Arc<Mcp>, request: &Request) {
        let handshake = match initialize::read_initialize(&request.params) {
            Ok(handshake) => handshake,
            Err(message) => return self.send(Failure::params(message).write(Some(&request.id))).await,
        };
        let session = Arc::new(Session::new(self.identity.clone(), handshake));
        if self.session.set(session.clone()).is_err() {
            let failure = Failure::request(200, "this connection is already initialized");
            return self.send(failure.write(Some(&request.id))).await;
        }
        self.send(initialize::write_initialize_result(&request.id, &handshake, mcp.server_capabilities()))
            .await;
        // Ends with the session.
        let mut notifications = NotificationStream::open(mcp, session, None);
        let send_queue = self.send_queue.clone();
        tokio::spawn(async move {
            while let Some((_, message)) = notifications.next().await {
                send_queue.try_send(message);
            }
        });
    }

    async fn handle_in_session(&self, mcp: &Arc<Mcp>, request: Request, reservation: Reservation) {
        let Some(session) = self.session.get() else {
            let what = "begin with 'initialize', or send '_meta' as revision 2026-07-28 requires";
            return self.send(Failure::request(200, what).write(Some(&request.id))).await;
        };
        let (mcp, send_queue, known) = (mcp.clone(), self.send_queue.clone(), session.clone());
        let out = MessageSink::Queue(send_queue.clone());
        if is_immediate(&request.method) {
            return self.send(dispatch::handle_request(&mcp, session, &request, out).await).await;
        }
        let id = request.id.clone();
        let started = session.calls.spawn(id.clone(), async move {
            let answer = dispatch::handle_request(&mcp, &known, &request, out).await;
            // Fails when the queue is closed.
            let _ = send_queue.send(answer.into()).await;
            drop(reservation);
        });
        if !started {
            self.reject_too_many(&id).await;
        }
    }

    async fn handle_stateless(&self, mcp: &Arc<Mcp>, request: Request, reservation: Reservation) {
        let id = request.id.clone();
        let (mcp, send_queue, identity) = (mcp.clone(), self.send_queue.clone(), self.identity.clone());
        if is_immediate(&request.method) {
            return run_stateless(&mcp, identity, request, &send_queue).await;
        }
        let work = async move {
            run_stateless(&mcp, identity, request, &send_queue).await;
            drop(reservation);
        };
        if !self.calls.spawn(id.clone(), work) {
            self.reject_too_many(&id).await;
        }
    }

    async fn reject_too_many(&self, id: &RequestId) {
        let failure = Failure::request(200, "too many requests are running; wait for some responses");
        self.send(failure.write(Some(id))).await;
    }
}

/// Methods answered from memory, in order of arrival; all others run in tasks of their own.
fn is_immediate(method: &str) -> bool {
    matches!(method, "ping" | "tools/list" | "logging/setLevel" | "server/discover")
}

/// Runs one request of a stateless client to its end.
async fn run_stateless(mcp: &Arc<Mcp>, identity: Identity, request: Request, send_queue: &SendQueue) {
    // Fails when the queue is closed; then the transport ends too and cancels this.
    let send = async |message: Bytes| {
        let _ = send_queue.send(message).await;
    };
    let meta = match stateless::read_meta(&request) {
        Ok(meta) => meta,
        Err(failure) => return send(failure.write(Some(&request.id)).into()).await,
    };
    match stateless::begin(mcp, identity, meta, request).await {
        Err((id, failure)) => send(failure.write(Some(&id)).into()).await,
        Ok(Started::Answered(answer)) => send(answer.into()).await,
        Ok(Started::Subscribed(mut subscription)) => {
            while let Some(message) = subscription.next().await {
                send(message).await;
            }
            // On a shared connection the end of a subscription is a result and a cancellation.
            send(notifications::cancelled(subscription.id(), "the server is shutting down").into()).await;
        }
        Ok(Started::Running(mut parkable)) => loop {
            match parkable.call.next_event().await {
                CallEvent::Message(message) => send_queue.try_send(message),
                CallEvent::Questions(questions) => return send(parkable.park(mcp, &questions).into()).await,
                CallEvent::Finished(result) => {
                    return send(result.write(&parkable.request.id, stateless::REVISION).1.into()).await;
                }
            }
        },
    }
}
