//! POST of a stateless client: checks headers against the body, then sends a response or a stream.

use super::{Accept, VERSION, fail, json};
use crate::limits::with_timeout;
use crate::mcp::stateless::{self, CallEvent, ParkableCall, REVISION, Started};
use crate::mcp::transport::sse;
use crate::mcp::{Mcp, stateless::listen};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::Response;
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
use toolyard_wire::mcp::{headers as wire_headers, meta};

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
        Ok(Started::Answered(answer)) => json(StatusCode::OK, answer),
        Ok(Started::Running(parkable)) => run_call(mcp, parkable, accept).await,
        Ok(Started::Subscribed(subscription)) if accept.events => subscription_response(subscription),
        Ok(Started::Subscribed(subscription)) => {
            let failure = Failure::request(406, "this is a stream; send 'Accept: text/event-stream' as well");
            fail(&failure, Some(subscription.id()))
        }
        Err((id, failure)) => fail(&failure, Some(&id)),
    }
}

/// Checks the mirrored headers and reads the required `_meta`.
fn check(mcp: &Mcp, headers: &HeaderMap, request: &Request) -> Result<RequestMeta, Failure> {
    if let Some(version) = meta::version(&request.params) {
        check_header(headers, &VERSION, &version)?;
    }
    check_header(headers, &METHOD, &request.method)?;
    if let Some(name) = wire_headers::name(&request.method, &request.params) {
        check_header(headers, &NAME, &name)?;
        if request.method == "tools/call" {
            check_argument_headers(mcp, headers, &name, request)?;
        }
    }
    stateless::read_meta(request)
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

/// Responds with JSON, or with a stream if a message precedes the response.
async fn run_call(mcp: &Arc<Mcp>, mut parkable: Box<ParkableCall>, accept: Accept) -> Response {
    loop {
        let event = if accept.events {
            match with_timeout(STREAM_AFTER, parkable.call.next_event()).await {
                Some(event) => event,
                None => return stream(mcp, parkable, None),
            }
        } else {
            parkable.call.next_event().await
        };
        match event {
            CallEvent::Finished(result) => {
                let (status, body) = result.write(&parkable.request.id, REVISION);
                return json(StatusCode::from_u16(status).unwrap_or(StatusCode::OK), body);
            }
            CallEvent::Questions(questions) => return json(StatusCode::OK, parkable.park(mcp, &questions)),
            CallEvent::Message(message) if accept.events => return stream(mcp, parkable, Some(message)),
            // A client that does not accept a stream gets the response only.
            CallEvent::Message(_) => {}
        }
    }
}

/// The rest of the call as events. When the client disconnects, the body and so the call is dropped.
fn stream(mcp: &Arc<Mcp>, parkable: Box<ParkableCall>, first: Option<Bytes>) -> Response {
    let state = (mcp.clone(), Some(parkable), first);
    sse::response(state, |(mcp, parkable, first)| async move {
        if let Some(message) = first {
            return Some((sse::event(None, &message), (mcp, parkable, None)));
        }
        let mut parkable = parkable?;
        let event = match sse::or_keep_alive(parkable.call.next_event()).await {
            Ok(event) => event,
            Err(comment) => return Some((comment, (mcp, Some(parkable), None))),
        };
        Some(match event {
            CallEvent::Message(message) => (sse::event(None, &message), (mcp, Some(parkable), None)),
            CallEvent::Questions(questions) => {
                let answer = parkable.park(&mcp, &questions);
                (sse::event(None, &answer), (mcp, None, None))
            }
            CallEvent::Finished(result) => {
                let (_, answer) = result.write(&parkable.request.id, REVISION);
                (sse::event(None, &answer), (mcp, None, None))
            }
        })
    })
}

fn subscription_response(subscription: Box<listen::Subscription>) -> Response {
    sse::response(subscription, |mut subscription| async move {
        match sse::or_keep_alive(subscription.next()).await {
            Ok(message) => Some((sse::event(None, &message?), subscription)),
            Err(comment) => Some((comment, subscription)),
        }
    })
}
