//! Plain HTTP routes: tool calls (a POST that returns a result envelope), discovery and prompt texts.

use crate::mcp::identity;
use crate::routes::{self, Routes};
use crate::server::App;
use crate::v1;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use std::sync::Arc;
use std::time::Instant;
use toolyard_engine::{Engine, Prompts};
use toolyard_protocol::text::escape_control;
use toolyard_protocol::{Call, Edge, Error, ErrorKind, NoopCaller, Outcome, Payload};
use toolyard_wire::framed_dialect;

pub fn routes(app: Arc<App>) -> Routes {
    Routes::new()
        .get(routes::HEALTH, healthz)
        .get("/mcp/discover", discover)
        .get("/mcp/prompt/{domain}/{name}/{major}", prompt)
        .post("/mcp/tool/{name}", call_tool)
        .with_state(app)
}

async fn healthz() -> Response {
    v1::respond(StatusCode::OK, b"{\"status\":\"ok\"}".to_vec())
}

async fn discover(State(app): State<Arc<App>>) -> Response {
    v1::respond(StatusCode::OK, discovery(&app.engine, app.mcp.prompts().as_ref(), app.started))
}

async fn prompt(
    State(app): State<Arc<App>>,
    Path((domain, name, major)): Path<(String, String, String)>,
) -> Response {
    match prompt_text(app.mcp.prompts().as_ref(), &domain, &name, &major) {
        Ok(body) => v1::respond(StatusCode::OK, body),
        Err(error) => respond(&Outcome::failure(app.engine.redact_error(error))),
    }
}

/// The discovery document: tools and prompts.
pub(crate) fn discovery(engine: &Engine, prompts: &dyn Prompts, started: Instant) -> Vec<u8> {
    let snapshot = engine.registry.snapshot();
    framed_dialect::write_discovery(framed_dialect::Discovery {
        server_version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: started.elapsed().as_secs(),
        tools: &mut snapshot.entries().iter().map(|entry| &entry.spec),
        prompts: &prompts.packs(),
    })
}

/// The source text of one version of a prompt.
pub(crate) fn prompt_text(
    prompts: &dyn Prompts,
    domain: &str,
    name: &str,
    major: &str,
) -> Result<Vec<u8>, Error> {
    let digits_only = major.bytes().all(|byte| byte.is_ascii_digit());
    let number = major.parse::<u32>().ok().filter(|_| digits_only).ok_or_else(|| {
        let shown: String = escape_control(major).chars().take(40).collect();
        Error::new(ErrorKind::InvalidInput, format!("'{shown}' is not a prompt version"))
            .hint("versions are whole numbers; GET /mcp/discover lists them")
    })?;
    Ok(framed_dialect::write_prompt(&prompts.text(domain, name, number)?))
}

async fn call_tool(State(app): State<Arc<App>>, Path(name): Path<String>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = v1::read(body, app.options.max_body).await;
    let outcome = match body.and_then(v1::arguments) {
        Ok(arguments) => app.engine.run(call(&app, name, arguments, &parts), &NoopCaller).await,
        Err(error) => Outcome::failure(app.engine.redact_error(error)),
    };
    respond(&outcome)
}

fn call(app: &App, tool: String, arguments: Payload, parts: &Parts) -> Call {
    let (identity, trace) = (identity(&parts.extensions), v1::trace(&parts.headers));
    Call { identity, trace, ..Call::new(app.engine.call_id(), tool, arguments, Edge::Http) }
}

fn respond(outcome: &Outcome) -> Response {
    let status = outcome.error().map_or(StatusCode::OK, v1::status_of);
    v1::respond(status, framed_dialect::write_envelope(outcome))
}
