//! HTTP of a session: POST sends messages, GET opens or resumes a stream, DELETE ends the session.

use super::{Accept, Reader, fail, json, needs_session, refuse, text, too_many_sessions};
use crate::connection_limits::Connection;
use crate::counted_body::AlreadyCounted;
use crate::limits::with_timeout;
use crate::mcp::session::caller::MessageSink;
use crate::mcp::session::notification_stream::NotificationStream;
use crate::mcp::session::outbox::{NextEvent, Outbox};
use crate::mcp::session::{OpenStream, Session};
use crate::mcp::transport::duplex::NO_BATCHES;
use crate::mcp::{Mcp, session::dispatch, transport::sse};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Duration;
use toolyard_formats::json::array;
use toolyard_protocol::Identity;
use toolyard_wire::jsonrpc::{self, Message, Notification, Reject, Request};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Revision, initialize};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// A call that takes longer is answered on a stream, which has keep-alives and can be resumed.
const STREAM_AFTER: Duration = Duration::from_secs(2);

pub(super) fn initialize(mcp: &Mcp, identity: Identity, request: &Request) -> Response {
    let handshake = match initialize::read_initialize(&request.params) {
        Ok(handshake) => handshake,
        Err(message) => return fail(&Failure::params(message), Some(&request.id)),
    };
    let Some((id, _)) = mcp.sessions.open(mcp.engine.random.as_ref(), identity, handshake) else {
        return fail(&too_many_sessions(), Some(&request.id));
    };
    let body = initialize::write_initialize_result(&request.id, &handshake, mcp.server_capabilities());
    let mut response = json(StatusCode::OK, body);
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(SESSION, id);
    }
    response
}

pub(super) async fn request(
    mcp: &Arc<Mcp>,
    headers: &HeaderMap,
    identity: &Identity,
    request: Request,
    reader: Reader<'_>,
) -> Response {
    let session = match find(mcp, headers, identity) {
        Ok(session) => session,
        Err(failure) => return fail(&failure, Some(&request.id)),
    };
    if dispatch::is_long_running(&request.method) {
        return run_requests(mcp, &session, vec![request], None, reader).await;
    }
    // Boxed, because the future is large enough for a call, which runs in a task of its own.
    let answer = Box::pin(dispatch::handle_request(mcp, &session, &request, MessageSink::Discard)).await;
    session.touch();
    json(StatusCode::OK, answer)
}

/// Several messages in one body, which only revision 2025-03-26 has.
pub(super) async fn batch(
    mcp: &Arc<Mcp>,
    headers: &HeaderMap,
    identity: &Identity,
    messages: Vec<Result<Message, Reject>>,
    reader: Reader<'_>,
) -> Response {
    let session = match find(mcp, headers, identity) {
        Ok(session) => session,
        Err(failure) => return fail(&failure, None),
    };
    if !session.handshake.has_batches() {
        return refuse(StatusCode::BAD_REQUEST, NO_BATCHES);
    }
    let (mut requests, mut rejected) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            Ok(Message::Request(request)) => requests.push(request),
            Ok(Message::Notification(notification)) => dispatch::handle_notification(&session, &notification),
            // Only the MCP 1.0 dialect responds to a response, and it has no batches.
            Ok(Message::Response(response)) => drop(dispatch::handle_response(&session, response)),
            Err(reject) => rejected.push(reject),
        }
    }
    if requests.is_empty() && rejected.is_empty() {
        return StatusCode::ACCEPTED.into_response();
    }
    run_requests(mcp, &session, requests, Some(rejected), reader).await
}

pub(super) fn notification(
    mcp: &Mcp,
    headers: &HeaderMap,
    identity: &Identity,
    notification: &Notification,
) -> Response {
    match find(mcp, headers, identity) {
        Ok(session) => {
            dispatch::handle_notification(&session, notification);
            if dispatch::is_close_notification(notification)
                && let Some(id) = text(headers, &SESSION)
            {
                mcp.sessions.remove(id, identity);
            }
            StatusCode::ACCEPTED.into_response()
        }
        Err(failure) => fail(&failure, None),
    }
}

pub(super) fn response(
    mcp: &Mcp,
    headers: &HeaderMap,
    identity: &Identity,
    response: jsonrpc::Response,
) -> Response {
    match find(mcp, headers, identity) {
        Ok(session) => match dispatch::handle_response(&session, response) {
            Some(answer) => json(StatusCode::OK, answer),
            None => StatusCode::ACCEPTED.into_response(),
        },
        Err(failure) => fail(&failure, None),
    }
}

pub(super) fn delete(mcp: &Mcp, headers: &HeaderMap, identity: &Identity) -> Response {
    match text(headers, &SESSION) {
        None => needs_session(),
        Some(id) if mcp.sessions.remove(id, identity) => StatusCode::NO_CONTENT.into_response(),
        Some(_) => fail(&unknown_session(), None),
    }
}

fn find(mcp: &Mcp, headers: &HeaderMap, identity: &Identity) -> Result<Arc<Session>, Failure> {
    let Some(id) = text(headers, &SESSION) else {
        return Err(Failure::request(
            400,
            "the header 'Mcp-Session-Id' is missing; begin with 'initialize', or send '_meta' as 2026-07-28 requires",
        ));
    };
    mcp.sessions.find(id, identity).ok_or_else(unknown_session)
}

/// The status 404 tells a client to start a new session.
fn unknown_session() -> Failure {
    Failure::request(404, "session not found; begin again with 'initialize'")
}

/// Runs requests that may send messages first. They survive a lost connection, until the session ends. A
/// batch also has the messages that were rejected.
async fn run_requests(
    mcp: &Arc<Mcp>,
    session: &Arc<Session>,
    requests: Vec<Request>,
    batch: Option<Vec<Reject>>,
    (accept, connection): Reader<'_>,
) -> Response {
    let outbox = session.new_outbox(requests.len(), &mcp.options, &mcp.buffers);
    // Until the client has seen an event it cannot resume, so the outbox goes when it disconnects.
    let mut unseen = Unseen { session, outbox: outbox.clone(), is_seen: false };
    for reject in batch.iter().flatten() {
        outbox.push_response(reject.write());
    }
    for request in requests {
        let out = if accept.events { MessageSink::Stream(outbox.clone()) } else { MessageSink::Discard };
        let mut pending =
            PendingResponse { outbox: outbox.clone(), session: session.clone(), answered: false };
        let (mcp, session_, id) = (mcp.clone(), session.clone(), request.id.clone());
        let started = session.calls.spawn(id.clone(), async move {
            let answer = dispatch::handle_request(&mcp, &session_, &request, out).await;
            pending.answer(answer);
        });
        if !started {
            let failure = Failure::request(200, "too many requests of this session are running");
            outbox.push_response(failure.write(Some(&id)));
        }
    }
    let responses = if accept.events {
        with_timeout(STREAM_AFTER, outbox.responses_only()).await.flatten()
    } else {
        outbox.responses_only().await
    };
    let Some(mut answers) = responses else {
        unseen.is_seen = true;
        let prime = session.handshake.revision == Revision::V2025_11_25;
        return stream_outbox(session, outbox, 0, prime, connection);
    };
    drop(unseen);
    match (batch, answers.len()) {
        (None, 1) => json(StatusCode::OK, answers.swap_remove(0)),
        // Cancelled: there is no JSON-RPC response, but HTTP needs one.
        (None, _) => StatusCode::ACCEPTED.into_response(),
        (Some(_), _) => {
            let mut out = Vec::new();
            array(&mut out, &answers, |out, answer| out.extend_from_slice(answer));
            json(StatusCode::OK, out)
        }
    }
}

/// Removes the outbox of a request whose client gets no stream.
struct Unseen<'a> {
    session: &'a Session,
    outbox: Arc<Outbox>,
    is_seen: bool,
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        if !self.is_seen {
            self.session.remove_outbox(self.outbox.key);
            self.outbox.discard();
        }
    }
}

/// Guarantees that the outbox stops waiting for the response of a cancelled request.
struct PendingResponse {
    outbox: Arc<Outbox>,
    session: Arc<Session>,
    answered: bool,
}

impl PendingResponse {
    fn answer(&mut self, message: Vec<u8>) {
        self.answered = true;
        self.outbox.respond(message);
        self.session.make_room(self.outbox.max_bytes());
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        if !self.answered {
            self.outbox.abandon();
        }
        self.session.touch();
    }
}

/// The reader of an outbox.
struct OutboxReader {
    outbox: Arc<Outbox>,
    number: u64,
    /// The number of the last event that was sent.
    after: u64,
    // Held as long as the stream is read.
    _open: OpenStream,
}

impl Drop for OutboxReader {
    fn drop(&mut self) {
        self.outbox.detach(self.number);
    }
}

impl sse::Read for (Box<OutboxReader>, Step) {
    fn progress(&self) {
        self.0.outbox.touch();
    }
}

/// The step of a stream.
enum Step {
    Prime,
    Events,
    Over,
}

/// The outbox as a stream of events, starting after the event number `after`.
fn stream_outbox(
    session: &Arc<Session>,
    outbox: Arc<Outbox>,
    after: u64,
    prime: bool,
    connection: &Arc<Connection>,
) -> Response {
    let number = outbox.attach(connection.clone());
    let reader = Box::new(OutboxReader { outbox, number, after, _open: session.open_stream() });
    let first = if prime { Step::Prime } else { Step::Events };
    let mut response = sse::response((reader, first), |(mut reader, step)| async move {
        match step {
            Step::Over => return None,
            Step::Prime => {
                let priming = sse::priming(&reader.outbox.event_id(0), Outbox::retry());
                return Some((priming, (reader, Step::Events)));
            }
            Step::Events => {}
        }
        let next = sse::or_keep_alive(reader.outbox.next(reader.number, reader.after)).await;
        let (chunks, step) = match next {
            Err(comment) => (comment, Step::Events),
            Ok(NextEvent::Event(event)) => {
                reader.after = event.number;
                let id = reader.outbox.event_id(event.number);
                (sse::event_in_pieces(Some(&id), &event.message), Step::Events)
            }
            Ok(NextEvent::Disconnect(retry)) => {
                (format!("retry: {}\n\n", retry.as_millis()).into(), Step::Over)
            }
            Ok(NextEvent::End) => return None,
        };
        Some((chunks, (reader, step)))
    });
    response.extensions_mut().insert(AlreadyCounted);
    response
}

/// Resumes the stream named by `Last-Event-ID`, or opens the notification stream.
pub(super) fn get(
    mcp: &Arc<Mcp>,
    headers: &HeaderMap,
    identity: &Identity,
    connection: &Arc<Connection>,
) -> Response {
    if text(headers, &SESSION).is_none() {
        return needs_session();
    }
    let session = match find(mcp, headers, identity) {
        Ok(session) => session,
        Err(failure) => return fail(&failure, None),
    };
    if !Accept::of(headers).events {
        return refuse(StatusCode::NOT_ACCEPTABLE, "this is a stream; send 'Accept: text/event-stream'");
    }
    if headers.get(&LAST_EVENT).is_none() {
        return notification_stream(mcp, session, None);
    }
    let id = text(headers, &LAST_EVENT).and_then(|id| id.split_once('-'));
    let id = id.and_then(|(key, number)| Some((key.parse::<u64>().ok()?, number.parse::<u64>().ok()?)));
    match id {
        Some((NOTIFICATIONS, number)) if session.has_sent(number) => {
            return notification_stream(mcp, session, Some(number));
        }
        Some((key, number)) => {
            if let Some(outbox) = session.find_outbox(key).filter(|outbox| outbox.knows(number)) {
                return stream_outbox(&session, outbox, number, false, connection);
            }
        }
        None => {}
    }
    // Not 404, which says that the session is gone.
    let what = "the stream of this Last-Event-ID is unknown or no longer kept; \
                GET without it opens the stream of changes";
    refuse(StatusCode::BAD_REQUEST, what)
}

/// The part of an event id that stands for the notification stream.
const NOTIFICATIONS: u64 = 0;

impl sse::Read for Box<NotificationStream> {}

/// The stream of notifications that belong to no request.
fn notification_stream(mcp: &Mcp, session: Arc<Session>, after: Option<u64>) -> Response {
    let notifications = Box::new(NotificationStream::open(mcp, session, after));
    sse::response(notifications, |mut notifications| async move {
        match sse::or_keep_alive(notifications.next()).await {
            Err(comment) => Some((comment, notifications)),
            Ok(found) => {
                let (number, message) = found?;
                Some((sse::event(Some(&format!("{NOTIFICATIONS}-{number}")), &message), notifications))
            }
        }
    })
}
