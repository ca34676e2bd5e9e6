//! `/mcp`: Streamable HTTP for both eras. Headers and body decide whether a request needs a session.

mod session;
mod stateless;

pub(in crate::mcp) use stateless::HeaderMirrorCache;

use crate::connection_limits::Connection;
use crate::limits::{self, BodyError};
use crate::mcp::Mcp;
use crate::routes::MCP_METHODS;
use crate::server::App;
use axum::body::Body;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use std::sync::Arc;
use toolyard_protocol::Identity;
use toolyard_wire::jsonrpc::{self, Incoming, Message, Reject};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{self, Revision, meta};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

pub(crate) async fn handle(app: &App, request: Request<Body>, connection: &Arc<Connection>) -> Response {
    let (parts, body) = request.into_parts();
    let identity = identity(&parts.extensions);
    let (mcp, headers) = (&app.mcp, &parts.headers);
    match parts.method {
        Method::POST => post(mcp, headers, identity, body, app.options.max_body, connection).await,
        Method::GET => session::get(mcp, headers, &identity, connection),
        Method::DELETE => session::delete(mcp, headers, &identity),
        _ => not_allowed(MCP_METHODS, "POST messages here; GET opens a stream and DELETE ends a session"),
    }
}

/// The identity that the HTTP entry point added.
pub(crate) fn identity(extensions: &Extensions) -> Identity {
    extensions.get::<Identity>().cloned().unwrap_or_else(Identity::anonymous)
}

async fn post(
    mcp: &Arc<Mcp>,
    headers: &HeaderMap,
    identity: Identity,
    body: Body,
    limit: usize,
    connection: &Arc<Connection>,
) -> Response {
    if !is_json(headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send 'Content-Type: application/json'");
    }
    let accept = Accept::of(headers);
    if !accept.json {
        let what = "send 'Accept: application/json, text/event-stream'";
        return refuse(StatusCode::NOT_ACCEPTABLE, what);
    }
    let body = match read_body(body, limit).await {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    match jsonrpc::read(&body) {
        Incoming::One(Err(reject)) => json(StatusCode::BAD_REQUEST, reject.write()),
        Incoming::One(Ok(message)) => {
            handle_message(mcp, headers, identity, message, (accept, connection)).await
        }
        Incoming::Batch(messages) => {
            // Boxed, as other requests of a session are: a large future is expensive to move.
            Box::pin(session::batch(mcp, headers, &identity, messages, (accept, connection))).await
        }
    }
}

/// Reads the whole body, within its size limit and timeout.
pub(super) async fn read_body(body: Body, limit: usize) -> Result<Bytes, Box<Response>> {
    limits::read_body(body, limit).await.map_err(|error| {
        let status = match error {
            BodyError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            BodyError::Broken => StatusCode::BAD_REQUEST,
        };
        Box::new(refuse(status, &error.message(limit)))
    })
}

async fn handle_message(
    mcp: &Arc<Mcp>,
    headers: &HeaderMap,
    identity: Identity,
    message: Message,
    (accept, connection): Reader<'_>,
) -> Response {
    match message {
        Message::Request(request) => {
            if is_stateless(headers, &request) {
                stateless::post(mcp, headers, identity, request, accept).await
            } else if request.method == mcp::Method::Initialize {
                session::initialize(mcp, identity, &request)
            } else {
                Box::pin(session::request(mcp, headers, &identity, request, (accept, connection))).await
            }
        }
        // Stateless clients send no notifications on HTTP; those of a future revision are ignored.
        Message::Notification(_) if declares_stateless(headers) => StatusCode::ACCEPTED.into_response(),
        Message::Response(_) if declares_stateless(headers) => {
            refuse(StatusCode::BAD_REQUEST, "stateless clients answer questions by repeating their request")
        }
        Message::Notification(notification) => session::notification(mcp, headers, &identity, &notification),
        Message::Response(response) => session::response(mcp, headers, &identity, response),
    }
}

/// Whether a request declares a revision without handshake, or an unknown one.
fn is_stateless(headers: &HeaderMap, request: &jsonrpc::Request) -> bool {
    request.method == mcp::Method::Discover
        || meta::version(&request.params).is_some()
        || declares_stateless(headers)
}

fn declares_stateless(headers: &HeaderMap) -> bool {
    text(headers, &VERSION)
        .is_some_and(|version| Revision::parse(version.trim()).is_none_or(Revision::is_stateless))
}

/// What the client accepts, and where it reads it.
type Reader<'a> = (Accept, &'a Arc<Connection>);

/// The media types that the client accepts.
#[derive(Clone, Copy)]
pub(super) struct Accept {
    json: bool,
    pub events: bool,
}

impl Accept {
    pub fn of(headers: &HeaderMap) -> Accept {
        let Some(value) = headers.get(header::ACCEPT) else { return Accept { json: true, events: false } };
        // Fast path: nearly every client sends this.
        if value == "application/json, text/event-stream" {
            return Accept { json: true, events: true };
        }
        let has = |kind: &str| words(headers, &header::ACCEPT).any(|word| is_media_type(word, kind));
        let all = has("*/*");
        Accept {
            json: all || has("application/json") || has("application/*"),
            events: all || has("text/event-stream") || has("text/*"),
        }
    }
}

pub(super) fn is_json(headers: &HeaderMap) -> bool {
    text(headers, &header::CONTENT_TYPE).is_some_and(|value| is_media_type(value, "application/json"))
}

/// Compares without parameters such as `charset`.
fn is_media_type(value: &str, kind: &str) -> bool {
    value.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(kind))
}

/// The elements of a header that is a list.
pub(crate) fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

pub(super) fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) fn fail(failure: &Failure, id: Option<&jsonrpc::RequestId>) -> Response {
    let status = StatusCode::from_u16(failure.http).unwrap_or(StatusCode::BAD_REQUEST);
    json(status, failure.write(id))
}

/// An error response without a request id.
pub(crate) fn refuse(status: StatusCode, message: &str) -> Response {
    json(status, Reject::invalid(None, message).write())
}

fn needs_session() -> Response {
    not_allowed("POST", "POST messages here; GET and DELETE need a session")
}

pub(super) fn not_allowed(method: &'static str, what: &str) -> Response {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, what);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(method));
    response
}

pub(super) fn too_many_sessions() -> Failure {
    Failure::request(503, "there are too many sessions; try again later")
}
