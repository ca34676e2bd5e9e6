//! `toolyard show NAME`: shows one tool or one resource.

use super::list::{all_specs, problems_of};
use crate::output;
use crate::remote::Remote;
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use bytes::Bytes;
use toolyard_engine::Snapshot;
use toolyard_formats::json;
use toolyard_protocol::{Error, ErrorKind};
use toolyard_wire::tool_list::{self, BehaviorDetails, FileDetails, PermissionDetails};

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
    let tool = match &global.url {
        Some(url) => {
            let remote = Remote::new(url, &global)?;
            small_runtime()?.block_on(remote.get(&["v1", "tools", &args.name], &[]))?
        }
        None => find(&args.name, &Yard::look_at_files(&global)?)?,
    };
    if global.json {
        output::data(tool);
    } else {
        output::line(page(&tool)?);
    }
    Ok(0)
}

/// A tool of the yard, in the form that a server answers too.
fn find(name: &str, yard: &Yard) -> Result<Bytes, Error> {
    let snapshot = yard.load();
    let specs = all_specs(&snapshot);
    let found = specs.iter().find(|(spec, _)| spec.exposed.as_str() == name || spec.name.as_str() == name);
    let (spec, enabled) = *found.ok_or_else(|| unknown(&snapshot, name))?;
    let problems = problems_of(&snapshot, &spec.source);
    let row = tool_list::ToolRow { spec: Some(spec), source: &spec.source, enabled, problems: &problems };
    Ok(tool_list::write_tool(&row).into())
}

/// The same error as for a call of an unknown tool.
pub fn unknown(snapshot: &Snapshot, name: &str) -> Error {
    let hint = match snapshot.nearest(name) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "'toolyard list' shows the tools that are loaded".to_owned(),
    };
    Error::new(ErrorKind::UnknownTool, format!("there is no tool '{name}'")).hint(hint)
}

fn page(json: &Bytes) -> Result<String, Error> {
    let tool = tool_list::read_tool(json)
        .map_err(|what| Error::new(ErrorKind::InvalidOutput, format!("invalid tool: {what}")))?;
    let mut text = String::new();
    let mut add = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    add(format!("{}  ({})", tool.title.as_deref().unwrap_or(&tool.exposed), tool.exposed));
    if let Some(description) = &tool.description {
        add(format!("\n{}\n", description.trim_end()));
    }
    add(format!("canonical name  {}", tool.name));
    add(format!("kind            {}", tool.kind));
    add(format!("version         {}", tool.version.as_deref().unwrap_or("-")));
    add(format!("file            {}", tool.source));
    add(format!("sandbox         {}", tool.sandbox));
    permissions(&tool.permissions).into_iter().for_each(&mut add);
    add(format!("timeout         {} ms", tool.limits.timeout_ms));
    add(format!("input at most   {} bytes", tool.limits.input));
    add(format!("output at most  {} bytes", tool.limits.output));
    let hints = [
        ("read-only", tool.annotations.read_only_hint),
        ("destructive", tool.annotations.destructive_hint),
        ("idempotent", tool.annotations.idempotent_hint),
        ("open world", tool.annotations.open_world_hint),
    ];
    let hints: Vec<String> = hints
        .iter()
        .filter_map(|(name, hint)| hint.map(|yes| if yes { name.to_string() } else { format!("not {name}") }))
        .collect();
    if !hints.is_empty() {
        add(format!("hints           {}", hints.join(", ")));
    }
    if !tool.categories.is_empty() {
        add(format!("categories      {}", tool.categories.join(", ")));
    }
    behavior(&tool.behavior).into_iter().for_each(&mut add);
    if !tool.enabled {
        add("state           disabled (enabled: false)".to_owned());
    }
    for (title, pointer) in [("\ninput", "/inputSchema"), ("\noutput", "/outputSchema")] {
        if let Some(schema) = tool_list::member(json, pointer) {
            add(format!("{title}\n{}", json::pretty(&schema).unwrap_or_default()));
        }
    }
    for example in tool_list::examples(json) {
        add(format!("\nexample: {}", example.name.as_deref().unwrap_or("-")));
        add(format!("  toolyard call {} '{}'", tool.exposed, String::from_utf8_lossy(&example.input)));
        add(match (&example.output, &example.error) {
            (Some(output), _) => format!("  {}", String::from_utf8_lossy(output)),
            (None, Some(code)) => format!("  fails with {code}"),
            (None, None) => "  succeeds".to_owned(),
        });
    }
    for problem in &tool.problems {
        add(format!("\nproblem: {problem}"));
    }
    Ok(text.trim_end().to_owned())
}

/// What the tool may use as it is now; nothing for a tool without a sandbox.
fn permissions(permissions: &PermissionDetails) -> Vec<String> {
    let mut lines = Vec::new();
    if !permissions.network.is_empty() {
        lines.push(format!("network         {}", permissions.network));
    }
    for (index, FileDetails { path, access, origin }) in permissions.files.iter().enumerate() {
        let label = if index == 0 { "files" } else { "" };
        lines.push(format!("{label:<16}{access:<6}{path}  ({origin})"));
    }
    lines
}

fn behavior(behavior: &BehaviorDetails) -> Vec<String> {
    let mut lines = Vec::new();
    if behavior.deterministic {
        lines.push("results         cached: the same input gives the same result".to_owned());
    }
    if let Some(guarded) = &behavior.guarded {
        lines.push(format!("guarded         HTTP callers need the yard's token ({guarded})"));
    }
    if let Some(limit) = behavior.concurrency {
        lines.push(format!("concurrency     {limit} call(s)"));
    }
    if let Some(rate) = &behavior.rate {
        lines.push(format!("rate            {} call(s) per {} ms", rate.calls, rate.per_ms));
    }
    if let Some(retry) = &behavior.retry {
        lines.push(format!(
            "retry           up to {} attempts, backoff from {} ms",
            retry.attempts, retry.backoff_ms
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
