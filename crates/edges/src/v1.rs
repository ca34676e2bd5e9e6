//! `/v1/`: calls, batches, jobs and events for programs, such as `toolyard --url`.

use crate::limits;
use crate::mcp::{identity, words};
use crate::query::Query;
use crate::routes::Routes;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, RawQuery, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::jobs::Jobs;
use toolyard_engine::resources::Resources;
use toolyard_engine::stores::{EventQuery, JobFilter};
use toolyard_engine::{Engine, RequestContext};
use toolyard_formats::json;
use toolyard_protocol::{
    Call, Edge, Error, ErrorKind, Id, Identity, JobState, NoopCaller, Outcome, Payload, TraceContext, Wait,
};
use toolyard_wire::tool_list::ToolRow;
use toolyard_wire::{batch, envelope, jobs, outcome, tool_list};

/// The longest wait of a request for a job or an event.
const MAX_WAIT_MS: u64 = 60_000;
const MAX_LIMIT: u64 = 1000;
const MAX_KEY: usize = 200;

pub struct V1 {
    pub engine: Arc<Engine>,
    pub resources: Arc<dyn Resources>,
    pub max_body: usize,
}

type Shared = State<Arc<V1>>;

/// The caller of a request.
struct Caller(Identity);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Infallible> {
        Ok(Caller(identity(&parts.extensions)))
    }
}

pub fn routes(v1: V1) -> Routes {
    Routes::new()
        .get("/v1/tools", list_tools)
        .get("/v1/tools/{name}", show_tool)
        .post("/v1/tools/{name}", call_tool)
        .post("/v1/batch", run_batch)
        .get("/v1/jobs", list_jobs)
        .get("/v1/jobs/{id}", show_job)
        .post("/v1/jobs/{id}/cancel", cancel_job)
        .get("/v1/events", read_events)
        .with_state(Arc::new(v1))
}

async fn list_tools(State(v1): Shared) -> Response {
    let snapshot = v1.engine.registry.snapshot();
    let rows = snapshot.entries().iter().map(|entry| row(&entry.spec));
    ok_response(tool_list::write_list(&rows.collect::<Vec<_>>()))
}

async fn show_tool(State(v1): Shared, Path(name): Path<String>) -> Response {
    match v1.engine.registry.find(&name) {
        Some(entry) => ok_response(tool_list::write_tool(&row(&entry.spec))),
        None => error_response(Error::new(ErrorKind::UnknownTool, "tool not found").hint("GET /v1/tools")),
    }
}

fn row(spec: &toolyard_protocol::ToolSpec) -> ToolRow<'_> {
    ToolRow { spec: Some(spec), source: &spec.source, enabled: true, problems: &[] }
}

/// `Idempotency-Key` makes a repeated call the same call; `Prefer: respond-async` returns a job id at once.
async fn call_tool(State(v1): Shared, Path(name): Path<String>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let called = async {
        let arguments = arguments(read(body, v1.max_body).await?)?;
        let (wait, idempotency_key) = (wait(&parts.headers), key(&parts.headers)?);
        let trace = trace(&parts.headers);
        let identity = identity(&parts.extensions);
        let call = Call::new(v1.engine.call_id(), name, arguments, Edge::Http);
        Ok(Call { identity, wait, idempotency_key, trace, ..call })
    };
    match called.await {
        Ok(call) => outcome_response(&v1.engine.run(call, &NoopCaller).await),
        Err(error) => error_response(v1.engine.redact_error(error)),
    }
}

async fn run_batch(State(v1): Shared, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let ran = async {
        let batch::Request { batch, conversation } = batch::read(read(body, v1.max_body).await?)?;
        let identity = identity(&parts.extensions);
        let trace = trace(&parts.headers);
        let context = RequestContext { identity: &identity, edge: Edge::Http, trace, caller: &NoopCaller };
        let outcomes = v1.engine.run_batch(&batch, context, v1.resources.as_ref()).await?;
        Ok(conversation.map_or_else(|| batch::write(&batch, &outcomes), |history| history.write(&outcomes)))
    };
    ran.await.map_or_else(|error| error_response(v1.engine.redact_error(error)), ok_response)
}

async fn list_jobs(State(v1): Shared, Caller(identity): Caller, RawQuery(query): RawQuery) -> Response {
    let listed = async {
        let filter = job_filter(Query::parse(query.as_deref())?, &identity)?;
        let limit = filter.limit;
        let found = open_jobs(&v1)?.list(filter).await?;
        let next = found.last().filter(|_| found.len() == limit).map(|job| job.id.to_string());
        Ok(jobs::write_jobs(&found, next.as_deref()))
    };
    listed.await.map_or_else(error_response, ok_response)
}

fn job_filter(mut query: Query, identity: &Identity) -> Result<JobFilter, Error> {
    let before = query.text("before").map(|text| parse_id(&text)).transpose()?;
    let filter = JobFilter {
        identity: identity.visible(),
        states: query.list("state", JobState::parse)?,
        tool: query.text("tool"),
        before,
        limit: query.number("limit", MAX_LIMIT)?.unwrap_or(100).max(1) as usize,
        is_summary: true,
    };
    query.finish(&["state", "tool", "before", "limit"])?;
    Ok(filter)
}

async fn show_job(
    State(v1): Shared,
    Caller(identity): Caller,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let found = async {
        let mut query = Query::parse(query.as_deref())?;
        let wait = query.number("wait_ms", MAX_WAIT_MS)?.unwrap_or(0);
        query.finish(&["wait_ms"])?;
        let id = parse_id(&id)?;
        let job = open_jobs(&v1)?.wait(id, &identity, Duration::from_millis(wait)).await?;
        Ok(jobs::write_job(&job))
    };
    found.await.map_or_else(error_response, ok_response)
}

async fn cancel_job(State(v1): Shared, Caller(identity): Caller, Path(id): Path<String>) -> Response {
    let cancelled = async {
        let (id, jobs) = (parse_id(&id)?, open_jobs(&v1)?);
        jobs.cancel(id, &identity).await?;
        Ok(jobs::write_job(&jobs.get(id, &identity).await?))
    };
    cancelled.await.map_or_else(error_response, ok_response)
}

async fn read_events(State(v1): Shared, Caller(identity): Caller, RawQuery(query): RawQuery) -> Response {
    let page = async {
        let mut query = Query::parse(query.as_deref())?;
        let wait = Duration::from_millis(query.number("wait_ms", MAX_WAIT_MS)?.unwrap_or(0));
        let event_query = EventQuery {
            after: query.number("after", u64::MAX)?,
            since: None,
            kinds: query.list("types", |word| Some(word.to_owned()))?,
            subject: query.text("subject"),
            limit: query.number("limit", MAX_LIMIT)?.unwrap_or(100).max(1) as usize,
        };
        query.finish(&["after", "types", "subject", "limit", "wait_ms"])?;
        let service = open_jobs(&v1)?;
        let events = service.events();
        let mut page = events.read(event_query.clone()).await?;
        if page.events.is_empty() && !wait.is_zero() {
            events.wait(page.cursor, wait).await?;
            page = events.read(EventQuery { after: Some(page.cursor), ..event_query }).await?;
        }
        let visible = service.visible_events(page.events, &identity).await?;
        Ok(jobs::write_events(&visible, page.cursor, page.has_more, (page.oldest, page.newest)))
    };
    page.await.map_or_else(error_response, ok_response)
}

fn open_jobs(v1: &V1) -> Result<&Arc<Jobs>, Error> {
    v1.engine.jobs.get()
}

fn parse_id(text: &str) -> Result<Id, Error> {
    Id::parse(text).ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, "this is not a job id").hint("GET /v1/jobs lists them")
    })
}

fn wait(headers: &HeaderMap) -> Wait {
    let asked = words(headers, &HeaderName::from_static("prefer")).any(|word| word == "respond-async");
    if asked { Wait::NoWait } else { Wait::AsDeclared }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| !text.is_empty() && text.len() <= MAX_KEY);
    text.map(|text| Some(text.to_owned())).ok_or_else(|| {
        let message = format!("the Idempotency-Key must be 1 to {MAX_KEY} visible ASCII characters");
        Error::new(ErrorKind::InvalidInput, message)
    })
}

pub(crate) fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    headers.get("traceparent").and_then(|value| value.to_str().ok()).and_then(TraceContext::parse)
}

pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, Error> {
    limits::read_body(body, limit).await.map_err(|error| error.to_error(limit))
}

/// An empty body means no arguments.
pub(crate) fn arguments(body: Bytes) -> Result<Payload, Error> {
    if body.is_empty() { Ok(Payload::json("{}")) } else { json::arguments(body) }
}

/// The outcome as JSON; status 202 while its job is running.
fn outcome_response(ended: &Outcome) -> Response {
    let status = match (ended.error(), ended.meta.job) {
        (Some(error), _) => status_of(error),
        (None, Some((_, state))) if !state.is_finished() => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    respond(status, outcome::write(ended))
}

pub(crate) fn error_response(error: Error) -> Response {
    respond(status_of(&error), error_body(&error))
}

/// `{"error": …}`
pub(crate) fn error_body(error: &Error) -> Vec<u8> {
    let mut body = Vec::new();
    let mut object = json::Object::new(&mut body);
    envelope::push_error(object.member("error"), error);
    object.end();
    body
}

pub(crate) fn status_of(error: &Error) -> StatusCode {
    StatusCode::from_u16(error.kind.row().http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn ok_response(body: Vec<u8>) -> Response {
    respond(StatusCode::OK, body)
}

pub(crate) fn respond(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
