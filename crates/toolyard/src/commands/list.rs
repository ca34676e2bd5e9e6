//! `toolyard list`: lists the tools of the yard and the files that failed to load.

use crate::output;
use crate::remote::Remote;
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use toolyard_engine::{Severity, Snapshot, SourceProblem};
use toolyard_protocol::{Error, ErrorKind, Sandbox, ToolSpec};
use toolyard_wire::tool_list::{self, ToolRow};

/// List the tools of the yard
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_: Args, global: GlobalOptions) -> Result<u8, Error> {
    if let Some(url) = &global.url {
        return list_remote(&Remote::new(url, &global)?, global.json);
    }
    let yard = Yard::look_at_files(&global)?;
    let snapshot = yard.load();
    if global.json {
        output::data(write_json(&snapshot));
    } else {
        print_table(&snapshot);
        if let Some(warning) = yard.sandbox_warning() {
            output::note(format!("\nwarning: {warning}"));
        }
    }
    Ok(0)
}

/// The tools of a running server.
fn list_remote(remote: &Remote, as_json: bool) -> Result<u8, Error> {
    let list = small_runtime()?.block_on(remote.get(&["v1", "tools"], &[]))?;
    if as_json {
        output::data(list);
        return Ok(0);
    }
    let tools = tool_list::read_list(&list)
        .map_err(|what| Error::new(ErrorKind::InvalidOutput, format!("invalid list of tools: {what}")))?;
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    for tool in tools {
        let first =
            tool.description.as_deref().and_then(|text| text.lines().next()).unwrap_or("-").to_owned();
        let cell = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
        rows.push(vec![cell(tool.exposed), cell(tool.kind), cell(tool.version), first]);
    }
    output::table(&rows);
    Ok(0)
}

const HEADER: [&str; 4] = ["NAME", "KIND", "VERSION", "DESCRIPTION"];

fn write_json(snapshot: &Snapshot) -> Vec<u8> {
    let specs = all_specs(snapshot);
    let mut rows = Vec::new();
    let problems: Vec<(String, Vec<String>)> = specs
        .iter()
        .map(|(spec, _)| (spec.source.clone(), problems_of(snapshot, &spec.source)))
        .chain(broken_sources(snapshot).map(|source| (source.to_owned(), problems_of(snapshot, source))))
        .collect();
    let rows_of =
        specs.iter().map(|(spec, enabled)| (Some(*spec), *enabled)).chain(std::iter::repeat((None, false)));
    for ((source, problems), (spec, enabled)) in problems.iter().zip(rows_of) {
        rows.push(ToolRow { spec, source, enabled, problems });
    }
    tool_list::write_list(&rows)
}

fn print_table(snapshot: &Snapshot) {
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    for (spec, enabled) in all_specs(snapshot) {
        let version = spec.about.version.as_ref().map_or("-".to_owned(), ToString::to_string);
        let text = spec.about.description.as_deref().or(spec.about.title.as_deref()).unwrap_or("-");
        let first = text.lines().next().unwrap_or_default();
        let state = if enabled { "" } else { "(disabled) " };
        let marker = match spec.sandbox {
            Sandbox::None => "(no sandbox) ",
            Sandbox::Landlock => "(sandbox: landlock) ",
            _ => "",
        };
        let text = format!("{state}{marker}{first}");
        rows.push(vec![spec.exposed.to_string(), spec.kind.to_owned(), version, text]);
    }
    match rows.len() {
        1 => output::note("no tools found; 'toolyard init' creates an example"),
        _ => output::table(&rows),
    }
    let errors = snapshot.problems().iter().filter(|problem| problem.severity == Severity::Error).count();
    if errors > 0 {
        output::note(format!("\n{errors} problem(s) keep files from loading; 'toolyard check' shows them"));
    }
}

/// Callable and disabled tools, sorted by name.
pub fn all_specs(snapshot: &Snapshot) -> Vec<(&ToolSpec, bool)> {
    let enabled = snapshot.entries().iter().map(|entry| (&entry.spec, true));
    let mut specs: Vec<_> = enabled.chain(snapshot.disabled().map(|spec| (spec, false))).collect();
    specs.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    specs
}

pub fn problems_of(snapshot: &Snapshot, source: &str) -> Vec<String> {
    snapshot.problems().iter().filter(|problem| problem.source == source).map(describe).collect()
}

/// `file:line:column: message (hint)`, the form that editors recognize.
pub fn format_problem(problem: &SourceProblem) -> String {
    let gap = if problem.position.is_some() { "" } else { " " };
    format!("{}:{gap}{}", problem.source, describe(problem))
}

/// `line:column: message (hint)`.
pub fn describe(problem: &SourceProblem) -> String {
    let position = problem.position.map_or(String::new(), |(line, column)| format!("{line}:{column}: "));
    let hint = problem.hint.as_deref().map_or(String::new(), |hint| format!(" ({hint})"));
    format!("{position}{}{hint}", problem.message)
}

/// Files with problems and without a tool.
fn broken_sources(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    let loaded: Vec<&str> = all_specs(snapshot).iter().map(|(spec, _)| spec.source.as_str()).collect();
    let mut broken: Vec<&str> = snapshot
        .problems()
        .iter()
        .map(|problem| problem.source.as_str())
        .filter(|s| !loaded.contains(s))
        .collect();
    broken.sort_unstable();
    broken.dedup();
    broken.into_iter()
}
