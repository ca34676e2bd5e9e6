//! `toolyard call NAME …`: calls one tool, of a yard or of a running server.

use crate::cli::usage_error;
use crate::input;
use crate::output;
use crate::remote::{Remote, RemoteCall};
use crate::terminal_caller::TerminalCaller;
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_engine::Engine;
use toolyard_formats::{duration, json};
use toolyard_protocol::{Call, Edge, Error, ErrorKind, Outcome, Payload, Wait};
use toolyard_runtimes::trace_report::{TraceReport, TraceRequest};
use toolyard_wire::{arguments, envelope, render, tool_list};

/// Call a tool
#[derive(clap::Args)]
pub struct Args {
    /// The tool's name, as shown by 'list' or canonical
    name: String,
    /// key=value (typed by the tool's schema), key:=JSON, one JSON object, or '-' to read it from stdin
    arguments: Vec<String>,
    /// Give up after this time, such as 30s (the tool's own timeout still applies)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Idempotency key: a call repeated with the same key is not run again
    #[arg(long, value_parser = parse_key)]
    key: Option<String>,
    /// Do not wait for the job to finish; print its id. Needs --url: the job runs on that server
    #[arg(long)]
    detach: bool,
    /// List every path and address the tool asks for, and the smallest 'sandbox' declaration (on stderr)
    #[arg(long)]
    trace_sandbox: bool,
}

fn parse_key(text: &str) -> Result<String, String> {
    let fits = (1..=200).contains(&text.len()) && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    fits.then(|| text.to_owned()).ok_or_else(|| "a key is 1 to 200 visible ASCII characters".to_owned())
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    if args.detach && global.url.is_none() {
        usage_error(
            "--detach needs a server that runs the job: add --url. Without a server this process runs the job and waits for it",
        );
    }
    if args.trace_sandbox && global.url.is_some() {
        usage_error("--trace-sandbox runs the tool in this process: leave --url out");
    }
    let outcome = match &global.url {
        Some(url) => small_runtime()?.block_on(call_remote(Remote::new(url, &global)?, args))?,
        None => call_local(&global, args)?,
    };
    print(&outcome, global.json);
    Ok(outcome.error().map_or(0, |error| error.kind.row().exit))
}

fn call_local(global: &GlobalOptions, args: Args) -> Result<Outcome, Error> {
    let yard = Yard::open(global)?;
    let trace = args.trace_sandbox.then(Arc::<TraceRequest>::default);
    if let Some(trace) = &trace {
        yard.loader.host.set_trace(trace.clone());
    }
    let name = args.name.clone();
    let engine = yard.engine()?;
    let outcome = small_runtime()?.block_on(async {
        let outcome = run_call(&engine, args).await;
        // After Ctrl-C a job may still run in this process; it is stopped before the exit.
        if let Some(jobs) = engine.jobs.if_open() {
            jobs.shut_down().await;
        }
        outcome
    });
    engine.audit.close();
    if let Some(trace) = trace {
        print_trace(&name, trace.report());
    }
    outcome
}

/// On stderr, so that stdout holds the result alone.
fn print_trace(name: &str, report: Option<TraceReport>) {
    let Some(report) = report.filter(|report| report.level != "none") else {
        return output::note(format!(
            "'{name}' ran no program in a sandbox, so that there is nothing to trace"
        ));
    };
    output::note(format!("what '{name}' asked for, at sandbox level {}:", report.level));
    for row in &report.rows {
        output::note(format!("  {:<20}  {:<8}  {}", row.verdict.words(), row.access, row.what));
    }
    if report.is_cut {
        output::note("  … and more than can be listed");
    }
    for remark in &report.remarks {
        output::note(format!("note: {remark}"));
    }
    match report.declaration.is_empty() {
        true => output::note(format!("smallest declaration for {}: none is needed", report.source)),
        false => output::note(format!("smallest declaration for {}: {}", report.source, report.declaration)),
    }
}

/// `key=value` is typed here, with the schema that the server shows: the server takes JSON only.
async fn call_remote(remote: Remote, args: Args) -> Result<Outcome, Error> {
    let words = &args.arguments;
    let typed = words.iter().any(|word| word != "-" && !word.starts_with('{'));
    let shown = if typed { Some(remote.get(&["v1", "tools", &args.name], &[]).await?) } else { None };
    let schema = shown.and_then(|tool| tool_list::input_schema(&tool));
    let arguments = read_arguments(words, schema.as_ref())?;
    let call = RemoteCall {
        tool: &args.name,
        arguments: &arguments,
        wait: if args.detach { Wait::NoWait } else { Wait::AsDeclared },
        key: args.key.as_deref(),
        timeout: args.timeout,
    };
    let _spinner = output::Spinner::start(format!("calling {}", args.name));
    tokio::select! {
        outcome = remote.call(call) => outcome,
        // Closing the connection cancels the call on the server.
        _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted; the server stops the tool")),
    }
}

async fn run_call(engine: &Engine, args: Args) -> Result<Outcome, Error> {
    let entry = engine.registry.find(&args.name);
    let schema = entry.as_ref().and_then(|entry| entry.spec.input_schema.as_ref());
    let arguments = read_arguments(&args.arguments, schema).map_err(|error| engine.redact_error(error))?;
    let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    // A job runs in this process, so the process waits for its result.
    let (wait, idempotency_key) = (Wait::UntilDone, args.key);
    let call = Call::new(engine.call_id(), args.name, arguments, Edge::Cli);
    let call = Call { deadline, wait, idempotency_key, ..call };
    let spinner = output::Spinner::start(format!("calling {}", call.tool));
    let caller = TerminalCaller::new(spinner.status());
    tokio::select! {
        outcome = engine.run(call, &caller) => Ok(outcome),
        // Dropping the call kills the tool and writes the end record to the audit log.
        _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted; the tool was stopped")),
    }
}

fn read_arguments(words: &[String], schema: Option<&Payload>) -> Result<Payload, Error> {
    if words != ["-"] {
        return arguments::from_cli_args(words, schema);
    }
    json::arguments(input::read(Path::new("-"), input::MAX_JSON)?)
}

pub fn print(outcome: &Outcome, as_json: bool) {
    if as_json {
        return output::data(envelope::write_result(outcome));
    }
    match outcome.error() {
        Some(error) => output::show_error(error),
        None => output::data(render::result(outcome)),
    }
    if let Some((id, state)) = outcome.meta.job.filter(|(_, state)| !state.is_finished()) {
        output::note(format!("job {id} is {}; 'toolyard job wait {id}' waits for it", state.as_str()));
    }
    if outcome.meta.cached {
        output::note("(cached)");
    }
    for warning in &outcome.meta.warnings {
        output::note(format!("warning: {warning}"));
    }
}
