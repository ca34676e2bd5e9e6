//! HTTP+SSE of revision 2024-11-05: a stream that names the address to POST to and carries every response.
//! The end of the stream ends the session.

use crate::connection_limits::Connection;
use crate::counted_body::AlreadyCounted;
use crate::mcp::session::registration::SessionRegistration;
use crate::mcp::transport::duplex::Eras;
use crate::mcp::transport::http::{
    Accept, fail, identity, is_json, not_allowed, read_body, refuse, too_many_sessions,
};
use crate::mcp::transport::sse::{self, Chunks, Read};
use crate::query::Query;
use crate::server::App;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Duration;
use toolyard_wire::mcp::failure::Failure;

/// `GET /sse`
pub(crate) fn open_legacy_stream(
    app: &App,
    request: &Request<Body>,
    connection: &Arc<Connection>,
) -> Response {
    if request.method() != Method::GET {
        return not_allowed("GET", "GET opens the stream; messages are POSTed to the address it names");
    }
    if request.headers().contains_key(header::ACCEPT) && !Accept::of(request.headers()).events {
        return refuse(StatusCode::NOT_ACCEPTABLE, "this is a stream; send 'Accept: text/event-stream'");
    }
    let Some(registration) =
        SessionRegistration::open(&app.mcp, identity(request.extensions()), Eras::Handshake)
    else {
        return fail(&too_many_sessions(), None);
    };
    registration.client.send_queue.set_connection(connection.clone());
    let endpoint = format!("event: endpoint\ndata: /messages?sessionId={}\n\n", registration.id);
    let (registration, drain) = (Box::new(registration), app.options.drain);
    let mut response = sse::response((registration, Some(endpoint)), move |(registration, first)| {
        next(registration, first, drain)
    });
    response.extensions_mut().insert(AlreadyCounted);
    response
}

/// `POST /messages?sessionId=…`
pub(crate) async fn post_legacy_message(app: &App, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        return not_allowed("POST", "POST messages here; GET /sse opens the stream");
    }
    if !is_json(&parts.headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send 'Content-Type: application/json'");
    }
    let id = match read_query(parts.uri.query()) {
        Ok(id) => id,
        Err(what) => return refuse(StatusCode::BAD_REQUEST, &what),
    };
    let Some(client) = app.mcp.sessions.find_duplex(&id, &identity(&parts.extensions)) else {
        return fail(&Failure::request(404, "session not found; open a stream with GET /sse"), None);
    };
    match read_body(body, app.options.max_body).await {
        Ok(body) => {
            // Waits while the client reads too slowly; long calls run in tasks of their own.
            client.receive(&app.mcp, body).await;
            (StatusCode::ACCEPTED, "Accepted").into_response()
        }
        Err(refused) => *refused,
    }
}

type StreamState = (Box<SessionRegistration>, Option<String>);

impl Read for StreamState {
    fn progress(&self) {
        self.0.client.send_queue.progress();
    }
}

async fn next(
    registration: Box<SessionRegistration>,
    first: Option<String>,
    drain: Duration,
) -> Option<(Chunks, StreamState)> {
    if let Some(first) = first {
        return Some((first.into(), (registration, None)));
    }
    let bytes = tokio::select! {
        biased;
        next = sse::or_keep_alive(registration.client.send_queue.next()) => match next {
            Ok(Ok(message)) => sse::event_in_pieces(None, &message),
            Ok(Err(_)) => return None,
            Err(comment) => comment,
        },
        () = registration.wait_for_drain(drain) => return None,
    };
    Some((bytes, (registration, None)))
}

fn read_query(query: Option<&str>) -> Result<String, String> {
    const NAME: &str = "sessionId";
    let mut query = Query::parse(query).map_err(|error| error.message)?;
    let id = query.text(NAME);
    query.finish(&[NAME]).map_err(|error| error.message)?;
    id.ok_or_else(|| "'sessionId' is missing; POST to the address that the stream named".into())
}
