//! What a session's client may ask for, 2024-11-05 to 2025-11-25, whatever carries its messages.

use crate::mcp::methods::operation::{self, Operation, Requester};
use crate::mcp::methods::{self, Client};
use crate::mcp::session::Session;
use crate::mcp::session::caller::{MessageSink, SessionCaller};
use crate::mcp::{Mcp, session::dialect_v1};
use std::sync::Arc;
use toolyard_engine::RequestContext;
use toolyard_protocol::{Edge, LogLevel, NoopCaller};
use toolyard_wire::jsonrpc::{Notification, Request, RequestId, Response};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{meta, result};

/// The response to one request.
pub(in crate::mcp) async fn handle_request(
    mcp: &Mcp,
    session: &Arc<Session>,
    request: &Request,
    out: MessageSink,
) -> Vec<u8> {
    let answered = if session.handshake.is_v1() {
        dialect_v1::handle_request(mcp, session, request, out).await
    } else {
        handle_standard(mcp, session, request, out).await
    };
    answered.unwrap_or_else(|failure| failure.write(Some(&request.id)))
}

/// What the standard knows, and what it does not forbid.
pub(in crate::mcp) async fn handle_standard(
    mcp: &Mcp,
    session: &Arc<Session>,
    request: &Request,
    out: MessageSink,
) -> Result<Vec<u8>, Failure> {
    let revision = session.handshake.revision;
    match request.method.as_str() {
        "ping" => Ok(result::empty(&request.id, revision)),
        "initialize" => Err(Failure::request(200, "this session was initialised already")),
        "logging/setLevel" => set_level(session, request),
        "resources/subscribe" | "resources/unsubscribe" | dialect_v1::UNSUBSCRIBED
            if mcp.server_capabilities.resources =>
        {
            subscribe(mcp, session, request).await
        }
        _ => {
            let client = Client { identity: &session.identity, revision };
            match methods::dispatch(mcp, client, request).await {
                Some(answered) => answered,
                None => run_operation(mcp, session, request, out).await,
            }
        }
    }
}

/// Whether a request may take long and speak before its answer.
pub(in crate::mcp) fn is_long_running(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

pub(in crate::mcp) fn handle_notification(session: &Session, notification: &Notification) {
    // The others (initialized, roots changed, progress of our own requests) ask nothing of us.
    if notification.method == "notifications/cancelled"
        && let Some(id) = notification.params.get("requestId").and_then(|raw| RequestId::parse(&raw))
    {
        session.calls.cancel(&id);
    }
}

/// Whether the client says that it is done, as clients of the 1.0 dialect do.
pub(in crate::mcp) fn is_close_notification(notification: &Notification) -> bool {
    matches!(notification.method.as_str(), "closed" | "notifications/closed")
}

/// Hands an answer to whoever asked. Only clients of the 1.0 dialect get a response to it.
pub(in crate::mcp) fn handle_response(session: &Session, response: Response) -> Option<Vec<u8>> {
    if session.handshake.is_v1() {
        return dialect_v1::handle_response(session, &response);
    }
    let number = std::str::from_utf8(response.id.as_bytes()).ok().and_then(|text| text.parse().ok());
    if let Some(number) = number {
        session.resolve_request(number, response.result);
    }
    None
}

async fn run_operation(
    mcp: &Mcp,
    session: &Arc<Session>,
    request: &Request,
    out: MessageSink,
) -> Result<Vec<u8>, Failure> {
    let operation =
        Operation::read(mcp, request).ok_or_else(|| Failure::unknown_method(&request.method))??;
    let revision = session.handshake.revision;
    let requester = Requester::new(session.identity.clone(), revision, false, request);
    let caller = SessionCaller::new(session.clone(), out, meta::progress_token(&request.params));
    let result = operation::run(mcp, operation, &requester, &caller).await;
    Ok(result.write(&request.id, revision).1)
}

fn set_level(session: &Session, request: &Request) -> Result<Vec<u8>, Failure> {
    let level = request.params.required_text("level")?;
    let level = LogLevel::parse(&level).ok_or_else(|| Failure::params("'level' is not a log level"))?;
    session.set_log(level);
    Ok(result::empty(&request.id, session.handshake.revision))
}

async fn subscribe(mcp: &Mcp, session: &Session, request: &Request) -> Result<Vec<u8>, Failure> {
    let uri = request.params.required_text("uri")?;
    let revision = session.handshake.revision;
    if request.method == "resources/subscribe" {
        subscribe_session(mcp, session, request, uri).await?;
    } else {
        session.unsubscribe(&uri);
    }
    Ok(result::empty(&request.id, revision))
}

/// Watches an address for the session; its changes are told under the request's id where that is wanted.
pub(in crate::mcp) async fn subscribe_session(
    mcp: &Mcp,
    session: &Session,
    request: &Request,
    uri: String,
) -> Result<(), Failure> {
    let trace = meta::trace(&request.params);
    let request_context =
        RequestContext { identity: &session.identity, edge: Edge::Mcp, trace, caller: &NoopCaller };
    let watch = mcp.services.resources.watch(&uri, request_context).await;
    let watch = watch.map_err(|error| Failure::of(&error, session.handshake.revision, Some(&uri)))?;
    if !session.subscribe(uri, watch, request.id.clone()) {
        return Err(Failure::request(200, "this session watches too many resources already"));
    }
    Ok(())
}
