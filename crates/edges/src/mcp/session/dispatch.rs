//! Dispatches the messages of a session, 2024-11-05 to 2025-11-25, independent of the transport.

use crate::counted_body::COUNTED;
use crate::mcp::methods::operation::{self, Operation, OperationResult, Requester};
use crate::mcp::methods::{self, Client};
use crate::mcp::session::Session;
use crate::mcp::session::caller::{MessageSink, SessionCaller};
use crate::mcp::{Mcp, session::dialect_v1};
use std::sync::Arc;
use toolyard_protocol::LogLevel;
use toolyard_wire::jsonrpc::{Notification, Request, Response};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Method, notifications, result};

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

/// The methods of the standard, and our extensions of it.
pub(in crate::mcp) async fn handle_standard(
    mcp: &Mcp,
    session: &Arc<Session>,
    request: &Request,
    out: MessageSink,
) -> Result<Vec<u8>, Failure> {
    let revision = session.handshake.revision;
    match request.method {
        Method::Ping => Ok(result::empty(&request.id, revision)),
        Method::Initialize => Err(Failure::request(200, "this session is already initialized")),
        Method::SetLogLevel => set_level(session, request),
        Method::Subscribe | Method::Unsubscribe if mcp.server_capabilities().resources => {
            subscribe(mcp, session, request).await
        }
        _ => {
            let client = Client { identity: &session.identity, revision };
            match methods::dispatch(mcp, client, request).await {
                Some(answered) => answered,
                None => Ok(run_operation(mcp, session, request, out).await?.write(&request.id, revision).1),
            }
        }
    }
}

/// Whether a request may run long and send messages before its response.
pub(in crate::mcp) fn is_long_running(method: &Method) -> bool {
    matches!(method, Method::CallTool | Method::GetPrompt | Method::ReadResource)
}

pub(in crate::mcp) fn handle_notification(session: &Session, notification: &Notification) {
    // The others (initialized, roots changed, progress of our requests) need no action.
    if let Some(id) = notifications::read_cancelled(notification) {
        session.calls.cancel(&id);
    }
}

/// Whether the client ends its session with a notification, as clients of the 1.0 dialect do.
pub(in crate::mcp) fn is_close_notification(notification: &Notification) -> bool {
    matches!(notification.method.as_str(), "closed" | "notifications/closed")
}

/// Passes a response of the client to the call that waits for it. Only the 1.0 dialect answers a response.
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

/// Calls a tool, gets a prompt or reads a resource.
pub(in crate::mcp) async fn run_operation(
    mcp: &Mcp,
    session: &Arc<Session>,
    request: &Request,
    out: MessageSink,
) -> Result<OperationResult, Failure> {
    let operation =
        Operation::read(mcp, request).ok_or_else(|| Failure::unknown_method(request.method.as_str()))??;
    let revision = session.handshake.revision;
    let requester = Requester::new(session.identity.clone(), revision, false, request);
    let caller = SessionCaller::new(session.clone(), out.clone(), request);
    let result = operation::run(mcp, operation, &requester, &caller).await;
    let size = result.response_size();
    if size >= COUNTED
        && let MessageSink::Stream(outbox) = out
    {
        tokio::select! {
            biased;
            space = mcp.buffers.space(size) => outbox.hold(space),
            // Kept for a client that may come back, it would be the first to go.
            () = outbox.unread() => {
                outbox.discard();
                return Err(Failure::request(200, "the result was not kept: nobody read it"));
            }
        }
    }
    Ok(result)
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
    if request.method == Method::Subscribe {
        subscribe_session(mcp, session, request, uri).await?;
    } else {
        session.unsubscribe(&uri);
    }
    Ok(result::empty(&request.id, revision))
}

/// Watches a URI for the session; the 1.0 dialect sends its changes with the id of this request.
pub(in crate::mcp) async fn subscribe_session(
    mcp: &Mcp,
    session: &Session,
    request: &Request,
    uri: String,
) -> Result<(), Failure> {
    let watch = mcp.services.resources.watch(&uri, methods::context(&session.identity, request)).await;
    let watch = watch.map_err(|error| Failure::of(&error, session.handshake.revision, Some(&uri)))?;
    if !session.subscribe(uri, watch, request.id.clone()) {
        return Err(Failure::request(200, "this session has too many subscriptions"));
    }
    Ok(())
}
