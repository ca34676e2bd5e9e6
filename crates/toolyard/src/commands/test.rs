//! `toolyard test [NAME …]`: runs the tools' examples and compares the results.

use super::check_results::{self, Row};
use crate::output;
use crate::servers;
use crate::token;
use crate::wiring::{GlobalOptions, Yard, large_runtime};
use std::sync::Arc;
use toolyard_edges::{Auth, serve};
use toolyard_engine::{Engine, Entry};
use toolyard_formats::{cache_key::same_value, json};
use toolyard_protocol::{Call, Edge, Error, ErrorKind, Example, Expect, Outcome};
use toolyard_wire::render;

/// Run the examples of the yard's tools as tests
#[derive(clap::Args)]
pub struct Args {
    /// Only these tools
    names: Vec<String>,
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    let yard = Yard::open(&global)?;
    large_runtime()?.block_on(run_tests(&yard, &args.names, global.json))
}

async fn run_tests(yard: &Yard, names: &[String], as_json: bool) -> Result<u8, Error> {
    let engine = Arc::new(yard.engine()?);
    let entries = select_tools(&engine, names)?;
    let server = serve_in_background(yard, engine.clone()).await;
    let mut rows = Vec::new();
    let mut without_examples = 0;
    for entry in &entries {
        without_examples += usize::from(entry.spec.examples.is_empty());
        if !entry.spec.examples.is_empty() {
            // Not counted against the timeout of the first example; an error shows up in the example.
            let _ = entry.runner.prepare().await;
        }
        for (i, example) in entry.spec.examples.iter().enumerate() {
            let name = example.name.clone().unwrap_or_else(|| format!("example {}", i + 1));
            let result = run_example(&engine, entry, example).await;
            let detail = result.as_ref().err().map_or(String::new(), |what| format!(": {what}"));
            rows.push(Row {
                name: "example",
                ok: result.is_ok(),
                detail: format!("{}: {name}{detail}", entry.spec.exposed),
            });
        }
    }
    if let Some(server) = server {
        server.abort();
    }
    engine.audit.close();
    Ok(report(yard, &rows, without_examples, as_json, &engine))
}

fn select_tools(engine: &Engine, names: &[String]) -> Result<Vec<Arc<Entry>>, Error> {
    let snapshot = engine.registry.snapshot();
    if names.is_empty() {
        return Ok(snapshot.entries().to_vec());
    }
    names
        .iter()
        .map(|name| engine.registry.find(name).ok_or_else(|| super::show::unknown(&snapshot, name)))
        .collect()
}

/// Serves the yard on its own address while the examples run, because tools may call it. When the address is
/// in use, a server of this yard is most likely running already.
async fn serve_in_background(yard: &Yard, engine: Arc<Engine>) -> Option<tokio::task::JoinHandle<()>> {
    let listener = tokio::net::TcpListener::bind(yard.config.server.listen).await.ok()?;
    let token = token::read_or_create(&yard.state, engine.random.as_ref()).ok()?;
    let options = super::serve::options(&yard.config.server, Auth { policy: yard.config.auth.token, token });
    let mcp = yard.mcp(&engine).ok()?;
    let address = listener.local_addr().ok()?;
    yard.loader.host.add_own_port(address.port());
    let record = servers::Record::write(&yard.state, address);
    Some(tokio::spawn(async move {
        serve(listener, engine, mcp, options, std::future::pending()).await;
        drop(record);
    }))
}

async fn run_example(engine: &Engine, entry: &Entry, example: &Example) -> Result<(), String> {
    let arguments = json::arguments(example.input.bytes().clone()).map_err(|error| error.message)?;
    let call = Call::new(engine.call_id(), entry.spec.exposed.as_str(), arguments, Edge::Cli);
    compare(&engine.run(call, &toolyard_protocol::NoopCaller).await, &example.expect)
}

fn compare(outcome: &Outcome, expect: &Expect) -> Result<(), String> {
    match (outcome.error(), expect) {
        (Some(error), Expect::Error(wanted)) => {
            let row = error.kind.row();
            let names =
                [row.code, row.name, row.error_type, error.details.tool_code.as_deref().unwrap_or_default()];
            match names.contains(&wanted.as_str()) {
                true => Ok(()),
                false => Err(format!(
                    "failed with {} ({}) instead of {wanted}: {}",
                    row.code, row.name, error.message
                )),
            }
        }
        (Some(error), _) => Err(format!("failed: {}", error.message)),
        (None, Expect::Error(wanted)) => Err(format!("succeeded, but the error {wanted} was expected")),
        (None, Expect::Success) => Ok(()),
        (None, Expect::Output(wanted)) => {
            let got = outcome.data().or(outcome.content()).map_or(&b"null"[..], |payload| payload.bytes());
            match same_value(got, wanted.bytes()) {
                true => Ok(()),
                false => {
                    let wanted = String::from_utf8_lossy(wanted.bytes());
                    Err(format!("expected {wanted}, got {}", render::result(outcome)))
                }
            }
        }
    }
}

fn report(yard: &Yard, rows: &[Row], without_examples: usize, as_json: bool, engine: &Engine) -> u8 {
    let failed = rows.iter().filter(|row| !row.ok).count();
    let broken = engine
        .registry
        .snapshot()
        .problems()
        .iter()
        .filter(|p| p.severity == toolyard_engine::Severity::Error)
        .count();
    if as_json {
        output::data(check_results::json(rows));
    } else {
        for row in rows {
            output::line(format!("{} {}", if row.ok { "ok  " } else { "FAIL" }, row.detail));
        }
        if without_examples > 0 {
            output::note(format!("{without_examples} tool(s) have no examples"));
        }
        if broken > 0 {
            output::note(format!(
                "{broken} problem(s) keep files from loading; 'toolyard check --yard {}' shows them",
                yard.root.display()
            ));
        }
        output::line(format!("{} passed, {failed} failed", rows.len() - failed));
    }
    if failed + broken == 0 { 0 } else { ErrorKind::ToolFailed.row().exit }
}
