//! A stateless client's POST: headers that agree with the body, then one answer or a stream that ends with it.

use super::super::sse;
use super::super::stateless::{self, Course, Under};
use super::super::turn::Step;
use super::super::{Mcp, listen};
use super::{Accept, VERSION, fail, json};
use crate::patience::within;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::Identity;
use toolyard_wire::jsonrpc::Request;
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::meta::RequestMeta;
use toolyard_wire::mcp::{headers as mirrored, meta};

/// A call that takes longer is answered on a stream, so that the client sees that it lives.
const STREAM_AFTER: Duration = Duration::from_secs(5);

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

const REVISION: toolyard_wire::mcp::Revision = toolyard_wire::mcp::Revision::V2026_07_28;

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
        Ok(Course::Done(answer)) => json(StatusCode::OK, answer),
        Ok(Course::Turn(under)) => turn(mcp, under, accept).await,
        Ok(Course::Listen(listening)) if accept.events => listen_on(listening),
        Ok(Course::Listen(listening)) => {
            let failure = Failure::request(406, "this is a stream; send 'Accept: text/event-stream' as well");
            fail(&failure, Some(listening.id()))
        }
        Err((id, failure)) => fail(&failure, Some(&id)),
    }
}

/// The mirrored headers, and what every request must carry.
fn check(mcp: &Mcp, headers: &HeaderMap, request: &Request) -> Result<RequestMeta, Failure> {
    if let Some(version) = meta::version(&request.params) {
        agree(headers, &VERSION, &version)?;
    }
    agree(headers, &METHOD, &request.method)?;
    if let Some(name) = mirrored::name(&request.method, &request.params) {
        agree(headers, &NAME, &name)?;
        if request.method == "tools/call" {
            agree_on_arguments(mcp, headers, &name, request)?;
        }
    }
    stateless::read_meta(request)
}

fn agree(headers: &HeaderMap, name: &HeaderName, body: &str) -> Result<(), Failure> {
    let Some(value) = headers.get(name) else {
        return Err(Failure::header_mismatch(format!("the header '{name}' is missing")));
    };
    // The common case without a copy.
    if value.as_bytes() == body.as_bytes() {
        return Ok(());
    }
    match value.to_str().ok().and_then(mirrored::decode) {
        Some(value) if value == body => Ok(()),
        _ => Err(Failure::header_mismatch(format!("the header '{name}' is not what the body says"))),
    }
}

fn agree_on_arguments(mcp: &Mcp, headers: &HeaderMap, tool: &str, request: &Request) -> Result<(), Failure> {
    let all = mcp.catalogues.mirrored(&mcp.engine.registry);
    let Some(mirrors) = all.get(tool) else { return Ok(()) };
    let arguments = request.params.get("arguments").unwrap_or_else(|| Bytes::from_static(b"{}"));
    match mirrored::mismatch(mirrors, &arguments, |name| {
        headers.get(name).and_then(|value| value.to_str().ok())
    }) {
        None => Ok(()),
        Some(what) => Err(Failure::header_mismatch(what)),
    }
}

/// One JSON answer, unless there is something to say before it.
async fn turn(mcp: &Arc<Mcp>, mut under: Box<Under>, accept: Accept) -> Response {
    loop {
        let step = if accept.events {
            match within(STREAM_AFTER, under.turn.step()).await {
                Some(step) => step,
                None => return stream(mcp, under, None),
            }
        } else {
            under.turn.step().await
        };
        match step {
            Step::Ended(said) => {
                let (status, body) = said.write(&under.request.id, REVISION);
                return json(StatusCode::from_u16(status).unwrap_or(StatusCode::OK), body);
            }
            Step::Asks(questions) => return json(StatusCode::OK, under.park(mcp, &questions)),
            Step::Message(message) if accept.events => return stream(mcp, under, Some(message)),
            // A client that takes no stream hears the end only.
            Step::Message(_) => {}
        }
    }
}

/// The rest of the turn as events. When the client goes away, the body is dropped, and the work with it.
fn stream(mcp: &Arc<Mcp>, under: Box<Under>, first: Option<Bytes>) -> Response {
    let state = (mcp.clone(), Some(under), first);
    sse::response(state, |(mcp, under, first)| async move {
        if let Some(message) = first {
            return Some((sse::event(None, &message), (mcp, under, None)));
        }
        let mut under = under?;
        let step = match sse::or_comment(under.turn.step()).await {
            Ok(step) => step,
            Err(comment) => return Some((comment, (mcp, Some(under), None))),
        };
        Some(match step {
            Step::Message(message) => (sse::event(None, &message), (mcp, Some(under), None)),
            Step::Asks(questions) => {
                let answer = under.park(&mcp, &questions);
                (sse::event(None, &answer), (mcp, None, None))
            }
            Step::Ended(said) => {
                let (_, answer) = said.write(&under.request.id, REVISION);
                (sse::event(None, &answer), (mcp, None, None))
            }
        })
    })
}

fn listen_on(listening: Box<listen::Listening>) -> Response {
    sse::response(listening, |mut listening| async move {
        match sse::or_comment(listening.next()).await {
            Ok(message) => Some((sse::event(None, &message?), listening)),
            Err(comment) => Some((comment, listening)),
        }
    })
}
