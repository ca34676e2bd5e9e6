//! What a session's client may ask for, 2024-11-05 to 2025-11-25, whatever carries its messages.

use super::methods::{self, Client};
use super::session::Session;
use super::session_caller::{Out, SessionCaller};
use super::talk::{self, Talk, Who};
use super::{Mcp, dialect};
use std::sync::Arc;
use toolyard_engine::Behalf;
use toolyard_protocol::{Edge, LogLevel, Nobody};
use toolyard_wire::jsonrpc::{Notification, Request, RequestId, Response};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{meta, result};

/// The response to one request.
pub(super) async fn answer(mcp: &Mcp, session: &Arc<Session>, request: &Request, out: Out) -> Vec<u8> {
    let answered = if session.hello.is_first() {
        dialect::answer(mcp, session, request, out).await
    } else {
        standard(mcp, session, request, out).await
    };
    answered.unwrap_or_else(|failure| failure.write(Some(&request.id)))
}

/// What the standard knows, and what it does not forbid.
pub(super) async fn standard(
    mcp: &Mcp,
    session: &Arc<Session>,
    request: &Request,
    out: Out,
) -> Result<Vec<u8>, Failure> {
    let revision = session.hello.revision;
    match request.method.as_str() {
        "ping" => Ok(result::empty(&request.id, revision)),
        "initialize" => Err(Failure::request(200, "this session was initialised already")),
        "logging/setLevel" => set_level(session, request),
        "resources/subscribe" | "resources/unsubscribe" | dialect::UNSUBSCRIBED if mcp.offer().resources => {
            subscribe(mcp, session, request).await
        }
        _ => {
            let client = Client { identity: &session.identity, revision };
            match methods::answer(mcp, client, request).await {
                Some(answered) => answered,
                None => talk(mcp, session, request, out).await,
            }
        }
    }
}

/// Whether a request may take long and speak before its answer.
pub(super) fn is_long(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

pub(super) fn notified(session: &Session, notification: &Notification) {
    // The others (initialized, roots changed, progress of our own requests) ask nothing of us.
    if notification.method == "notifications/cancelled"
        && let Some(id) = notification.params.get("requestId").and_then(|raw| RequestId::parse(&raw))
    {
        session.calls.cancel(&id);
    }
}

/// Whether the client says that it is done, as seed 000's clients do.
pub(super) fn is_closed(notification: &Notification) -> bool {
    matches!(notification.method.as_str(), "closed" | "notifications/closed")
}

/// Hands an answer to whoever asked. Only seed 000's clients are answered in their turn.
pub(super) fn responded(session: &Session, response: Response) -> Option<Vec<u8>> {
    if session.hello.is_first() {
        return dialect::responded(session, &response);
    }
    let number = std::str::from_utf8(response.id.as_bytes()).ok().and_then(|text| text.parse().ok());
    if let Some(number) = number {
        session.answered(number, response.result);
    }
    None
}

async fn talk(mcp: &Mcp, session: &Arc<Session>, request: &Request, out: Out) -> Result<Vec<u8>, Failure> {
    let talk = Talk::read(mcp, request).ok_or_else(|| Failure::unknown_method(&request.method))??;
    let revision = session.hello.revision;
    let who = Who::new(session.identity.clone(), revision, false, request);
    let caller = SessionCaller::new(session.clone(), out, meta::progress_token(&request.params));
    let said = talk::run(mcp, talk, &who, &caller).await;
    Ok(said.write(&request.id, revision).1)
}

fn set_level(session: &Session, request: &Request) -> Result<Vec<u8>, Failure> {
    let level = request.params.need("level")?;
    let level = LogLevel::parse(&level).ok_or_else(|| Failure::params("'level' is not a log level"))?;
    session.set_log(level);
    Ok(result::empty(&request.id, session.hello.revision))
}

async fn subscribe(mcp: &Mcp, session: &Session, request: &Request) -> Result<Vec<u8>, Failure> {
    let uri = request.params.need("uri")?;
    let revision = session.hello.revision;
    if request.method == "resources/subscribe" {
        watch(mcp, session, request, uri).await?;
    } else {
        session.unwatch(&uri);
    }
    Ok(result::empty(&request.id, revision))
}

/// Watches an address for the session; its changes are told under the request's id where that is wanted.
pub(super) async fn watch(
    mcp: &Mcp,
    session: &Session,
    request: &Request,
    uri: String,
) -> Result<(), Failure> {
    let trace = meta::trace(&request.params);
    let behalf = Behalf { identity: &session.identity, edge: Edge::Mcp, trace, caller: &Nobody };
    let watch = mcp.services.resources.watch(&uri, behalf).await;
    let watch = watch.map_err(|error| Failure::of(&error, session.hello.revision, Some(&uri)))?;
    if !session.watch(uri, watch, request.id.clone()) {
        return Err(Failure::request(200, "this session watches too many resources already"));
    }
    Ok(())
}
