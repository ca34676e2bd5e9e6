//! `toolyard show NAME`: shows one tool or one resource.

use super::list::{all_specs, problems_of};
use crate::output;
use crate::wiring::{GlobalOptions, Yard};
use toolyard_engine::Snapshot;
use toolyard_formats::json;
use toolyard_protocol::{Behavior, Error, ErrorKind, Expect, ToolSpec};
use toolyard_wire::tool_list;

/// Show one tool (description, limits, schemas, examples) or one resource
#[derive(clap::Args)]
pub struct Args {
    /// The tool's name, as shown by 'list' or canonical, or the address of a resource
    name: String,
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    // No tool has such a name.
    if args.name.contains("://") {
        return super::resource::show_one(&args.name, &global);
    }
    let yard = Yard::open(&global)?;
    let snapshot = yard.load();
    let specs = all_specs(&snapshot);
    let found =
        specs.iter().find(|(spec, _)| spec.exposed.as_str() == args.name || spec.name.as_str() == args.name);
    let (spec, enabled) = *found.ok_or_else(|| unknown(&snapshot, &args.name))?;
    let problems = problems_of(&snapshot, &spec.source);
    if global.json {
        let row = tool_list::ToolRow { spec: Some(spec), source: &spec.source, enabled, problems: &problems };
        output::line(tool_list::write_tool(&row));
    } else {
        output::line(page(spec, enabled, &problems));
    }
    Ok(0)
}

/// The same error as for a call of an unknown tool.
pub fn unknown(snapshot: &Snapshot, name: &str) -> Error {
    let hint = match snapshot.nearest(name) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "'toolyard list' shows the tools that are loaded".to_owned(),
    };
    Error::new(ErrorKind::UnknownTool, format!("there is no tool '{name}'")).hint(hint)
}

fn page(spec: &ToolSpec, enabled: bool, problems: &[String]) -> String {
    let mut text = String::new();
    let mut add = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    add(format!("{}  ({})", spec.about.title.as_deref().unwrap_or(spec.exposed.as_str()), spec.exposed));
    if let Some(description) = &spec.about.description {
        add(format!("\n{}\n", description.trim_end()));
    }
    add(format!("canonical name  {}", spec.name));
    add(format!("kind            {}", spec.kind));
    add(format!(
        "version         {}",
        spec.about.version.as_ref().map_or("-".to_owned(), ToString::to_string)
    ));
    add(format!("file            {}", spec.source));
    let limits = spec.limits;
    add(format!("sandbox         {}", spec.sandbox.as_str()));
    add(format!("timeout         {} ms", limits.timeout.as_millis()));
    add(format!("input at most   {} bytes", limits.input));
    add(format!("output at most  {} bytes", limits.output));
    let hints = [
        ("read-only", spec.annotations.read_only),
        ("destructive", spec.annotations.destructive),
        ("idempotent", spec.annotations.idempotent),
        ("open world", spec.annotations.open_world),
    ];
    let hints: Vec<String> = hints
        .iter()
        .filter_map(|(name, hint)| hint.map(|yes| if yes { name.to_string() } else { format!("not {name}") }))
        .collect();
    if !hints.is_empty() {
        add(format!("hints           {}", hints.join(", ")));
    }
    if !spec.about.categories.is_empty() {
        add(format!("categories      {}", spec.about.categories.join(", ")));
    }
    behavior(&spec.behavior).into_iter().for_each(&mut add);
    if !enabled {
        add("state           disabled (enabled: false)".to_owned());
    }
    for (title, schema) in [("\ninput", &spec.input_schema), ("\noutput", &spec.output_schema)] {
        if let Some(schema) = schema {
            add(format!("{title}\n{}", json::pretty(schema.bytes()).unwrap_or_default()));
        }
    }
    for example in &spec.examples {
        add(format!("\nexample: {}", example.name.as_deref().unwrap_or("-")));
        add(format!("  toolyard call {} '{}'", spec.exposed, String::from_utf8_lossy(example.input.bytes())));
        add(match &example.expect {
            Expect::Success => "  succeeds".to_owned(),
            Expect::Output(output) => format!("  {}", String::from_utf8_lossy(output.bytes())),
            Expect::Error(code) => format!("  fails with {code}"),
        });
    }
    for problem in problems {
        add(format!("\nproblem: {problem}"));
    }
    text.trim_end().to_owned()
}

fn behavior(behavior: &Behavior) -> Vec<String> {
    let mut lines = Vec::new();
    if behavior.deterministic {
        lines.push("results         cached: the same input gives the same result".to_owned());
    }
    if let Some(limit) = behavior.concurrency {
        lines.push(format!("concurrency     {limit} call(s)"));
    }
    if let Some(rate) = behavior.rate {
        lines.push(format!("rate            {} call(s) per {} ms", rate.calls, rate.per.as_millis()));
    }
    if let Some(retry) = behavior.retry {
        lines.push(format!(
            "retry           up to {} attempts, backoff from {} ms",
            retry.attempts,
            retry.backoff.as_millis()
        ));
    }
    if behavior.dialog {
        lines.push("dialog          sends progress, logs and questions while it runs".to_owned());
    }
    if behavior.attached {
        lines.push("attached        the caller stays connected until the tool detaches".to_owned());
    }
    if behavior.context {
        lines.push("context         passed to the tool (TOOLYARD_CONTEXT)".to_owned());
    }
    lines
}
