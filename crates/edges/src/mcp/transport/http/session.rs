//! HTTP of a session: POST sends messages, GET opens or resumes a stream, DELETE ends the session.

use super::{Accept, fail, json, needs_session, refuse, text, too_many_sessions};
use crate::limits::with_timeout;
use crate::mcp::session::Session;
use crate::mcp::session::caller::MessageSink;
use crate::mcp::session::notification_stream::NotificationStream;
use crate::mcp::session::outbox::{NextEvent, Outbox};
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
    accept: Accept,
) -> Response {
    let session = match find(mcp, headers, identity) {
        Ok(session) => session,
        Err(failure) => return fail(&failure, Some(&request.id)),
    };
    if dispatch::is_long_running(&request.method) {
        return run_requests(mcp, &session, vec![request], None, accept).await;
    }
    json(StatusCode::OK, dispatch::handle_request(mcp, &session, &request, MessageSink::Discard).await)
}

/// Several messages in one body, which only revision 2025-03-26 has.
pub(super) async fn batch(
    mcp: &Arc<Mcp>,
    headers: &HeaderMap,
    identity: &Identity,
    messages: Vec<Result<Message, Reject>>,
    accept: Accept,
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
    run_requests(mcp, &session, requests, Some(rejected), accept).await
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
    accept: Accept,
) -> Response {
    let outbox = session.new_outbox(requests.len());
    for reject in batch.iter().flatten() {
        outbox.push_response(reject.write());
    }
    for request in requests {
        let out = if accept.events { MessageSink::Stream(outbox.clone()) } else { MessageSink::Discard };
        let mut pending = PendingResponse { outbox: outbox.clone(), answered: false };
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
        return stream_outbox(outbox, 0, session.handshake.revision == Revision::V2025_11_25);
    };
    session.remove_outbox(outbox.key);
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

/// Guarantees that the outbox stops waiting for the response of a cancelled request.
struct PendingResponse {
    outbox: Arc<Outbox>,
    answered: bool,
}

impl PendingResponse {
    fn answer(&mut self, message: Vec<u8>) {
        self.answered = true;
        self.outbox.respond(message);
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        if !self.answered {
            self.outbox.abandon();
        }
    }
}

/// The outbox as a stream of events, starting after the event number `after`.
fn stream_outbox(outbox: Arc<Outbox>, after: u64, prime: bool) -> Response {
    let reader = outbox.attach();
    sse::response((outbox, after, prime, false), move |(outbox, after, prime, over)| async move {
        if over {
            return None;
        }
        if prime {
            let first = sse::priming(&outbox.event_id(0), Outbox::retry());
            return Some((first, (outbox, after, false, false)));
        }
        match sse::or_keep_alive(outbox.next(reader, after)).await {
            Err(comment) => Some((comment, (outbox, after, false, false))),
            Ok(NextEvent::Event(event)) => {
                let bytes = sse::event(Some(&outbox.event_id(event.number)), &event.message);
                Some((bytes, (outbox, event.number, false, false)))
            }
            Ok(NextEvent::Disconnect(retry)) => {
                let last = format!("retry: {}\n\n", retry.as_millis());
                Some((last.into(), (outbox, after, false, true)))
            }
            Ok(NextEvent::End) => None,
        }
    })
}

/// Resumes the stream named by `Last-Event-ID`, or opens the notification stream.
pub(super) fn get(mcp: &Arc<Mcp>, headers: &HeaderMap, identity: &Identity) -> Response {
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
    let last = text(headers, &LAST_EVENT).and_then(|id| id.split_once('-'));
    let last = last.and_then(|(key, number)| Some((key.parse::<u64>().ok()?, number.parse::<u64>().ok()?)));
    if let Some((key, number)) = last
        && let Some(outbox) = session.find_outbox(key)
    {
        return stream_outbox(outbox, number, false);
    }
    notification_stream(mcp, session, last.map(|(_, number)| number))
}

/// The stream of notifications that belong to no request.
fn notification_stream(mcp: &Mcp, session: Arc<Session>, after: Option<u64>) -> Response {
    let notifications = Box::new(NotificationStream::open(mcp, session, after));
    sse::response(notifications, |mut notifications| async move {
        match sse::or_keep_alive(notifications.next()).await {
            Err(comment) => Some((comment, notifications)),
            Ok(found) => {
                let (number, message) = found?;
                Some((sse::event(Some(&format!("0-{number}")), &message), notifications))
            }
        }
    })
}
