//! A client that has one line for everything it is told: on pipes, on legacy HTTP+SSE, on a WebSocket. Many requests at a
//! time, with a handshake or without.

use super::backlog::{Backlog, Bounds, End, Refused, Reserved};
use super::calls::Calls;
use super::general::General;
use super::session::Session;
use super::session_caller::Out;
use super::stateless::{self, Course};
use super::turn::Step;
use super::{Mcp, handshake, lock};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use toolyard_protocol::Identity;
use toolyard_wire::jsonrpc::{self, Incoming, Message, Notification, Reject, Request, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Revision, hello, meta, notifications};

/// How long a client may take nothing while answers wait for room.
const PATIENCE: Duration = Duration::from_secs(30);

const STATELESS: Revision = Revision::V2026_07_28;

pub(super) struct Peer {
    pub identity: Identity,
    pub backlog: Arc<Backlog>,
    eras: Eras,
    /// After a handshake.
    session: OnceLock<Arc<Session>>,
    /// Requests without a handshake.
    calls: Calls,
    /// Since when nothing has come; `None` once something has.
    silent: Mutex<Option<Instant>>,
    /// The client said that it is done.
    closed: AtomicBool,
}

/// Which revisions a transport carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eras {
    Handshake,
    Both,
}

impl Peer {
    pub fn new(mcp: &Mcp, identity: Identity, eras: Eras) -> Peer {
        let options = &mcp.options;
        let bounds =
            Bounds { messages: options.max_queued, bytes: options.max_queued_bytes, patience: PATIENCE };
        Peer {
            identity,
            backlog: Arc::new(Backlog::new(bounds)),
            eras,
            session: OnceLock::new(),
            calls: Calls::default(),
            silent: Mutex::new(Some(Instant::now())),
            closed: AtomicBool::new(false),
        }
    }

    /// Takes in what the client sent: a message, or a batch where its revision has them.
    pub async fn receive(&self, mcp: &Arc<Mcp>, text: Bytes) {
        lock(&self.silent).take();
        if text.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let size = text.len();
        match jsonrpc::read(&text) {
            Incoming::One(message) => self.message(mcp, message, size).await,
            Incoming::Batch(messages) => {
                let allowed = self.session.get().is_some_and(|session| session.hello.has_batches());
                if !allowed {
                    let what = "batches exist in revision 2025-03-26 only; send one message at a time";
                    return self.send(Reject::invalid(None, what).write()).await;
                }
                // Each is answered by itself, as soon as it is done.
                let each = size / messages.len().max(1);
                for message in messages {
                    self.message(mcp, message, each).await;
                }
            }
        }
    }

    pub async fn send(&self, message: Vec<u8>) {
        // Fails when no one reads any more; whoever carries the messages finds out.
        let _ = self.backlog.send(message.into()).await;
    }

    pub fn is_running(&self) -> bool {
        self.calls.are_running() || self.session.get().is_some_and(|session| session.calls.are_running())
    }

    /// How long it has said nothing. Whoever has spoken is alive as long as its line is.
    pub fn idle(&self, now: Instant) -> Duration {
        lock(&self.silent).map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Whether the client said that it is done.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Cancels what runs and ends the line after what was said already.
    pub fn close(&self) {
        self.calls.close();
        if let Some(session) = self.session.get() {
            session.close();
        }
        self.backlog.end(End::Over);
    }

    async fn message(&self, mcp: &Arc<Mcp>, message: Result<Message, Reject>, size: usize) {
        match message {
            Err(reject) => self.send(reject.write()).await,
            Ok(Message::Notification(notification)) => self.notified(&notification),
            Ok(Message::Response(response)) => {
                let answer = self.session.get().and_then(|session| handshake::responded(session, response));
                if let Some(answer) = answer {
                    self.send(answer).await;
                }
            }
            Ok(Message::Request(request)) => match self.backlog.reserve(size).await {
                Ok(room) => self.request(mcp, request, room).await,
                Err(Refused::Busy) => self.too_many(&request.id).await,
                Err(Refused::Ended) => {}
            },
        }
    }

    async fn request(&self, mcp: &Arc<Mcp>, request: Request, room: Reserved) {
        let stateless = request.method == "server/discover" || meta::version(&request.params).is_some();
        if stateless && self.eras == Eras::Handshake {
            let what = "HTTP+SSE ended with revision 2025-11-25; send 2026-07-28 to /mcp";
            self.send(Failure::request(200, what).write(Some(&request.id))).await;
        } else if stateless {
            self.without_handshake(mcp, request, room).await;
        } else if request.method == "initialize" {
            self.initialize(mcp, &request).await;
        } else {
            self.in_session(mcp, request, room).await;
        }
    }

    fn notified(&self, notification: &Notification) {
        if let Some(session) = self.session.get() {
            handshake::notified(session, notification);
            if handshake::is_closed(notification) {
                self.closed.store(true, Ordering::Relaxed);
                self.close();
            }
        }
        if notification.method == "notifications/cancelled"
            && let Some(id) = notification.params.get("requestId").and_then(|raw| RequestId::parse(&raw))
        {
            self.calls.cancel(&id);
        }
    }

    async fn initialize(&self, mcp: &Arc<Mcp>, request: &Request) {
        let hello = match hello::read_initialize(&request.params) {
            Ok(hello) => hello,
            Err(message) => return self.send(Failure::params(message).write(Some(&request.id))).await,
        };
        let session = Arc::new(Session::new(self.identity.clone(), hello));
        if self.session.set(session.clone()).is_err() {
            let failure = Failure::request(200, "this connection was initialised already");
            return self.send(failure.write(Some(&request.id))).await;
        }
        self.send(hello::write_welcome(&request.id, &hello, mcp.offer())).await;
        // Ends with the session.
        let mut general = General::open(mcp, session, None);
        let backlog = self.backlog.clone();
        tokio::spawn(async move {
            while let Some((_, message)) = general.next().await {
                backlog.say(message);
            }
        });
    }

    async fn in_session(&self, mcp: &Arc<Mcp>, request: Request, room: Reserved) {
        let Some(session) = self.session.get() else {
            let what = "begin with 'initialize', or send '_meta' as 2026-07-28 demands";
            return self.send(Failure::request(200, what).write(Some(&request.id))).await;
        };
        let (mcp, backlog, known) = (mcp.clone(), self.backlog.clone(), session.clone());
        let out = Out::Line(backlog.clone());
        if is_quick(&request.method) {
            return self.send(handshake::answer(&mcp, session, &request, out).await).await;
        }
        let id = request.id.clone();
        let started = session.calls.spawn(id.clone(), async move {
            let answer = handshake::answer(&mcp, &known, &request, out).await;
            // Fails when no one reads any more.
            let _ = backlog.send(answer.into()).await;
            drop(room);
        });
        if !started {
            self.too_many(&id).await;
        }
    }

    async fn without_handshake(&self, mcp: &Arc<Mcp>, request: Request, room: Reserved) {
        let id = request.id.clone();
        let (mcp, backlog, identity) = (mcp.clone(), self.backlog.clone(), self.identity.clone());
        if is_quick(&request.method) {
            return answer(&mcp, identity, request, &backlog).await;
        }
        let work = async move {
            answer(&mcp, identity, request, &backlog).await;
            drop(room);
        };
        if !self.calls.spawn(id.clone(), work) {
            self.too_many(&id).await;
        }
    }

    async fn too_many(&self, id: &RequestId) {
        let failure = Failure::request(200, "too many requests are running; wait for some answers");
        self.send(failure.write(Some(id))).await;
    }
}

/// Answered from memory, in the order they came; everything else runs beside the reading.
fn is_quick(method: &str) -> bool {
    matches!(method, "ping" | "tools/list" | "logging/setLevel" | "server/discover")
}

/// One request of a stateless client, to its end.
async fn answer(mcp: &Arc<Mcp>, identity: Identity, request: Request, line: &Backlog) {
    // Fails when no one reads any more; then the reading ends too, and cancels this.
    let send = async |message: Bytes| {
        let _ = line.send(message).await;
    };
    let meta = match stateless::read_meta(&request) {
        Ok(meta) => meta,
        Err(failure) => return send(failure.write(Some(&request.id)).into()).await,
    };
    match stateless::begin(mcp, identity, meta, request).await {
        Err((id, failure)) => send(failure.write(Some(&id)).into()).await,
        Ok(Course::Done(answer)) => send(answer.into()).await,
        Ok(Course::Listen(mut listening)) => {
            while let Some(message) = listening.next().await {
                send(message).await;
            }
            // Without a stream of its own the end of a subscription is told twice: as a result and as a cancellation.
            send(notifications::cancelled(listening.id(), "the server stops").into()).await;
        }
        Ok(Course::Turn(mut under)) => loop {
            match under.turn.step().await {
                Step::Message(message) => line.say(message),
                Step::Asks(questions) => return send(under.park(mcp, &questions).into()).await,
                Step::Ended(said) => return send(said.write(&under.request.id, STATELESS).1.into()).await,
            }
        },
    }
}
