//! `toolyard audit list|verify|export`: lists calls, verifies the hash chain, exports the records.

use crate::output;
use crate::wiring::{GlobalOptions, Yard};
use std::sync::Arc;
use toolyard_formats::json;
use toolyard_formats::redact::by_name::View;
use toolyard_protocol::error_table::EXIT_DAMAGED;
use toolyard_protocol::{Error, Id};
use toolyard_store::audit::{self, AuditError, CallRow, ExportFilter, Filter, Index};

/// Query, verify and export the audit log
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List calls, newest first
    List {
        /// Only calls of this tool (canonical name)
        #[arg(long)]
        tool: Option<String>,
        /// Only calls in this state; open is still running
        #[arg(long, alias = "status", value_parser = STATES)]
        state: Option<String>,
        /// Only this call
        #[arg(long, value_name = "ID", value_parser = parse_id)]
        call: Option<Id>,
        /// Maximum number of calls
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: u32,
    },
    /// Verify the hash chain of all records
    Verify,
    /// Print the records as stored, one JSON object per line
    Export {
        /// Only the records of this call
        #[arg(long, value_name = "ID", value_parser = parse_id)]
        call: Option<Id>,
    },
}

/// What a call can be recorded as.
const STATES: [&str; 6] = ["success", "no_change_needed", "partial_success", "failure", "refused", "open"];

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    let yard = Yard::look(&global)?;
    match args.command {
        Command::List { tool, state, call, limit } => {
            let filter = Filter { tool, status: state, call, limit: Some(limit), ..Filter::default() };
            list(&yard, &filter, global.json)
        }
        Command::Verify => verify(&yard, global.json),
        Command::Export { call } => {
            let selection = ExportFilter { call, ..ExportFilter::default() };
            match audit::export(&yard.state, &mut *output::stream(), &selection) {
                Err(AuditError::Export(error)) => output::end_unwritten(&error),
                exported => exported.map(|_| 0).map_err(|error| Error::from(&error)),
            }
        }
    }
}

fn parse_id(text: &str) -> Result<Id, String> {
    Id::parse(text).ok_or_else(|| "not a call id; 'toolyard audit list' shows them".to_owned())
}

fn list(yard: &Yard, filter: &Filter, as_json: bool) -> Result<u8, Error> {
    let rows = if yard.state.join("audit").is_dir() {
        let mut index = Index::open(&yard.state, Arc::new(View)).map_err(|error| Error::from(&error))?;
        index.catch_up().map_err(|error| Error::from(&error))?;
        index.query(filter).map_err(|error| Error::from(&error))?
    } else {
        Vec::new()
    };
    if as_json {
        output::data(json::objects(&rows, write_row));
    } else if rows.is_empty() {
        output::note("no calls found");
    } else {
        let header = ["TIME", "TOOL", "STATUS", "MS", "CALLER", "CALL"].map(str::to_owned).to_vec();
        let lines = rows.iter().map(|row| {
            let ms = row.duration_us.map_or("-".to_owned(), |us| format!("{:.1}", us as f64 / 1000.0));
            let status =
                row.error.as_ref().map_or(row.status.clone(), |error| format!("{} ({error})", row.status));
            let caller = format!("{}/{}", row.caller, row.edge);
            vec![row.time.clone(), row.tool.clone(), status, ms, caller, row.call.clone()]
        });
        output::table(&std::iter::once(header).chain(lines).collect::<Vec<_>>());
    }
    Ok(0)
}

fn write_row(object: &mut json::Object<'_>, row: &CallRow) {
    object.text("call", &row.call).text("time", &row.time).text("tool", &row.tool);
    object.text("caller", &row.caller).text("edge", &row.edge).text("status", &row.status);
    object.text_or_null("error", row.error.as_deref()).text_or_null("message", row.message.as_deref());
    for (name, value) in [("durationUs", row.duration_us), ("outputBytes", row.output_bytes)] {
        object.raw(name, value.map_or("null".to_owned(), |value| value.to_string()).as_bytes());
    }
}

fn verify(yard: &Yard, as_json: bool) -> Result<u8, Error> {
    let report = audit::verify(&yard.state).map_err(|error| Error::from(&error))?;
    let describe =
        |problem: &audit::Problem| format!("{}.jsonl:{}: {}", problem.segment, problem.line, problem.what);
    let problems: Vec<String> = report.problems.iter().map(describe).collect();
    let notes: Vec<String> = report.notes.iter().map(describe).collect();
    if as_json {
        let mut out = Vec::new();
        let mut object = json::Object::new(&mut out);
        object.bool("intact", problems.is_empty());
        object.number("segments", report.segments).number("records", report.records);
        object.texts("problems", problems.iter().map(String::as_str));
        object.texts("notes", notes.iter().map(String::as_str));
        object.end();
        output::data(out);
    } else {
        problems.iter().for_each(|text| output::line(format!("PROBLEM {text}")));
        notes.iter().for_each(|text| output::line(format!("note    {text}")));
        let verdict = if problems.is_empty() { "intact" } else { "NOT INTACT" };
        output::line(format!("{} record(s) in {} segment(s): {verdict}", report.records, report.segments));
        if report.more > 0 {
            output::line(format!("and {} more problem(s)", report.more));
        }
    }
    Ok(if problems.is_empty() { 0 } else { EXIT_DAMAGED })
}
