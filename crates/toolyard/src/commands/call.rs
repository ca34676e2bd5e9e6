//! `toolyard call NAME …`: one call through the whole pipeline, from the terminal.

use crate::output;
use crate::person::Person;
use crate::wiring::{Place, Yard, small_runtime};
use std::io::Read;
use std::time::{Duration, Instant};
use toolyard_engine::Engine;
use toolyard_protocol::{Call, Edge, Error, ErrorKind, Outcome, Payload};
use toolyard_wire::{arguments, envelope, json, render};

/// Call a tool
#[derive(clap::Args)]
pub struct Args {
    /// The tool's name, as 'list' shows it or canonical
    name: String,
    /// key=value (typed by the tool's schema), key:=JSON, one JSON object, or '-' to read it from stdin
    arguments: Vec<String>,
    /// Give up after this many milliseconds (the tool's own timeout holds as well)
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
}

pub fn run(args: Args, place: Place) -> Result<u8, Error> {
    let yard = Yard::open(&place)?;
    let engine = yard.engine()?;
    let outcome = small_runtime()?.block_on(run_call(&engine, args));
    engine.audit.close();
    let outcome = outcome?;
    print(&outcome, place.json);
    Ok(outcome.error().map_or(0, |error| error.kind.row().exit))
}

async fn run_call(engine: &Engine, args: Args) -> Result<Outcome, Error> {
    let entry = engine.registry.find(&args.name);
    let schema = entry.as_ref().and_then(|entry| entry.spec.input_schema.as_ref());
    let arguments = read_arguments(&args.arguments, schema)?;
    let deadline = args.timeout.map(|ms| Instant::now() + Duration::from_millis(ms));
    let call = Call { deadline, ..Call::new(engine.call_id(), args.name, arguments, Edge::Cli) };
    let spinner = output::Spinner::start(format!("calling {}", call.tool));
    let caller = Person::new(spinner.status());
    tokio::select! {
        outcome = engine.run(call, &caller) => Ok(outcome),
        // Dropping the call kills the tool and writes the end of the story to the audit log.
        _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted; the tool was stopped")),
    }
}

fn read_arguments(words: &[String], schema: Option<&Payload>) -> Result<Payload, Error> {
    if words != ["-"] {
        return arguments::from_words(words, schema);
    }
    const MAX: u64 = 64 << 20;
    let mut text = Vec::new();
    let read = std::io::stdin().lock().take(MAX + 1).read_to_end(&mut text);
    read.map_err(|error| Error::new(ErrorKind::InvalidInput, format!("stdin cannot be read: {error}")))?;
    if text.len() as u64 > MAX {
        return Err(Error::new(ErrorKind::InputTooLarge, format!("stdin has more than {MAX} bytes")));
    }
    json::arguments(text)
}

fn print(outcome: &Outcome, as_json: bool) {
    if as_json {
        return output::line(envelope::write_result(outcome));
    }
    match outcome.error() {
        Some(error) => output::show_error(error),
        None => output::line(render::result(outcome)),
    }
    if outcome.meta.cached {
        output::note("(kept from an earlier, equal call)");
    }
    for warning in &outcome.meta.warnings {
        output::note(format!("warning: {warning}"));
    }
}
