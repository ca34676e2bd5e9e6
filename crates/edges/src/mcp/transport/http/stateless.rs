//! POST of a stateless client: checks headers against the body, then sends a response or a stream.

use super::{Accept, VERSION, fail, json};
use crate::limits::with_timeout;
use crate::mcp::Mcp;
use crate::mcp::messages::Class;
use crate::mcp::stateless::{self, Exchange, Outgoing};
use crate::mcp::transport::sse;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use toolyard_engine::{Registry, Snapshot};
use toolyard_protocol::Identity;
use toolyard_wire::jsonrpc::Request;
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::headers::HeaderParam;
use toolyard_wire::mcp::meta::RequestMeta;
use toolyard_wire::mcp::{Method, headers as wire_headers, meta};

/// A call that takes longer is answered on a stream, whose keep-alives show the client that it is running.
const STREAM_AFTER: Duration = Duration::from_secs(5);

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

pub(super) async fn post(
    mcp: &Arc<Mcp>,
    headers: &HeaderMap,
    identity: Identity,
    request: Request,
    accept: Accept,
) -> Response {
    let meta = match check(mcp, headers, &request) {
        Ok(meta) => meta,
        Err(failure) => return fail(&failure, Some(&request.id)),
    };
    match stateless::begin(mcp, identity, meta, request).await {
        Ok(Exchange::Subscribed(subscription)) if !accept.events => {
            let failure = Failure::request(406, "this is a stream; send 'Accept: text/event-stream' as well");
            fail(&failure, Some(subscription.id()))
        }
        Ok(exchange) => respond(mcp, exchange, accept).await,
        Err((id, failure)) => fail(&failure, Some(&id)),
    }
}

/// Checks the mirrored headers and reads the required `_meta`.
fn check(mcp: &Mcp, headers: &HeaderMap, request: &Request) -> Result<RequestMeta, Failure> {
    if let Some(version) = meta::version(&request.params) {
        check_header(headers, &VERSION, &version)?;
    }
    check_method(headers, &request.method)?;
    if let Some(name) = wire_headers::name(&request.method, &request.params) {
        check_header(headers, &NAME, &name)?;
        if request.method == Method::CallTool {
            check_argument_headers(mcp, headers, &name, request)?;
        }
    }
    stateless::read_meta(request)
}

/// Different names of one method are the same method.
fn check_method(headers: &HeaderMap, method: &Method) -> Result<(), Failure> {
    let same = |value: &HeaderValue| value.to_str().is_ok_and(|name| Method::parse(name) == *method);
    match headers.get(&METHOD) {
        Some(value) if same(value) => Ok(()),
        _ => check_header(headers, &METHOD, method.as_str()),
    }
}

fn check_header(headers: &HeaderMap, name: &HeaderName, body: &str) -> Result<(), Failure> {
    let Some(value) = headers.get(name) else {
        return Err(Failure::header_mismatch(format!("the header '{name}' is missing")));
    };
    // Fast path without a copy.
    if value.as_bytes() == body.as_bytes() {
        return Ok(());
    }
    match value.to_str().ok().and_then(wire_headers::decode) {
        Some(value) if value == body => Ok(()),
        _ => Err(Failure::header_mismatch(format!("the header '{name}' does not match the body"))),
    }
}

fn check_argument_headers(
    mcp: &Mcp,
    headers: &HeaderMap,
    tool: &str,
    request: &Request,
) -> Result<(), Failure> {
    let all = mcp.header_mirrors.by_tool(&mcp.engine.registry);
    let Some(header_params) = all.get(tool) else { return Ok(()) };
    let arguments = request.params.get("arguments").unwrap_or_else(|| Bytes::from_static(b"{}"));
    match wire_headers::mismatch(header_params, &arguments, |name| {
        headers.get(name).and_then(|value| value.to_str().ok())
    }) {
        None => Ok(()),
        Some(what) => Err(Failure::header_mismatch(what)),
    }
}

/// The tool arguments that are mirrored in headers, computed once per registry snapshot.
#[derive(Default)]
pub(in crate::mcp) struct HeaderMirrorCache(Mutex<Option<(Arc<Snapshot>, Arc<MirrorsByTool>)>>);

type MirrorsByTool = HashMap<Box<str>, Vec<HeaderParam>>;

impl HeaderMirrorCache {
    /// Only tools with mirrored arguments are in the map.
    pub fn by_tool(&self, registry: &Registry) -> Arc<MirrorsByTool> {
        let snapshot = registry.snapshot();
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match cached.as_ref() {
            Some((known, mirrored)) if Arc::ptr_eq(known, &snapshot) => mirrored.clone(),
            _ => {
                let mirrored = Arc::new(mirrors_by_tool(&snapshot));
                *cached = Some((snapshot, mirrored.clone()));
                mirrored
            }
        }
    }
}

fn mirrors_by_tool(snapshot: &Snapshot) -> MirrorsByTool {
    let mut found = HashMap::new();
    for entry in snapshot.entries() {
        let schema = entry.spec.input_schema.as_ref();
        let header_params =
            schema.map(|schema| wire_headers::header_params(schema.bytes())).unwrap_or_default();
        if !header_params.is_empty() {
            found.insert(entry.spec.exposed.as_str().into(), header_params.clone());
            found.insert(entry.spec.name.as_str().into(), header_params);
        }
    }
    found
}

/// Responds with JSON, or with a stream if a message precedes the answer.
async fn respond(mcp: &Arc<Mcp>, mut exchange: Exchange, accept: Accept) -> Response {
    loop {
        let next = if accept.events {
            match with_timeout(STREAM_AFTER, exchange.next(mcp)).await {
                Some(next) => next,
                None => return stream(mcp, exchange, None),
            }
        } else {
            exchange.next(mcp).await
        };
        match next {
            Some(Outgoing { class: Class::Answer, message, http }) => {
                return json(StatusCode::from_u16(http).unwrap_or(StatusCode::OK), message);
            }
            Some(outgoing) if accept.events => return stream(mcp, exchange, Some(outgoing.message)),
            // A client that does not accept a stream gets the answer only.
            Some(_) => {}
            None => return StatusCode::ACCEPTED.into_response(),
        }
    }
}

impl sse::Read for (Arc<Mcp>, Exchange, Option<Bytes>) {}

/// The rest of the exchange as events. When the client disconnects, the body and so the call is dropped.
fn stream(mcp: &Arc<Mcp>, exchange: Exchange, first: Option<Bytes>) -> Response {
    sse::response((mcp.clone(), exchange, first), |(mcp, mut exchange, first)| async move {
        if let Some(message) = first {
            return Some((sse::event(None, &message), (mcp, exchange, None)));
        }
        let chunks = match sse::or_keep_alive(exchange.next(&mcp)).await {
            Ok(next) => sse::event(None, &next?.message),
            Err(comment) => comment,
        };
        Some((chunks, (mcp, exchange, None)))
    })
}
