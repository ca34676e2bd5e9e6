//! `toolyard prompt list|get`: lists the prompts of the yard, fills one in.

use crate::output;
use crate::terminal_caller::TerminalCaller;
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use std::sync::Arc;
use toolyard_engine::{Prompts, Registry, RequestContext};
use toolyard_protocol::{Edge, Error, ErrorKind, Identity, RenderedPrompt};
use toolyard_wire::{arguments, prompt};
use toolyard_yard::PromptService;
use toolyard_yard::prompts::PromptListing;

/// List and fill in prompts
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the prompts, their versions and arguments
    List,
    /// Fill in a prompt and print its messages
    Get(Get),
}

#[derive(clap::Args)]
struct Get {
    /// The prompt's name, as shown by 'prompt list' or domain.name; @3 selects version 3
    name: String,
    /// key=value (typed by the prompt's schema) or key:=JSON
    arguments: Vec<String>,
    /// The arguments as one JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "arguments")]
    args: Option<String>,
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    match args.command {
        Command::List => list(&global),
        Command::Get(get) => fill(&global, get),
    }
}

fn list(global: &GlobalOptions) -> Result<u8, Error> {
    let yard = Yard::open(global)?;
    let registry = Registry::new(yard.load());
    let listed = yard.prompts.packs().list(&registry);
    if global.json {
        let rows: Vec<prompt::Row<'_>> = listed
            .iter()
            .map(|row| prompt::Row { prompt: &row.prompt, id: &row.id, versions: &row.versions })
            .collect();
        output::line(prompt::write_list(&rows));
    } else if listed.is_empty() {
        output::note("no prompts found; register them in prompts/REGISTRY.yaml");
    } else {
        let mut rows = vec![["NAME", "VERSIONS", "ARGUMENTS", "DESCRIPTION"].map(str::to_owned).to_vec()];
        rows.extend(listed.iter().map(row));
        output::table(&rows);
    }
    Ok(0)
}

/// Optional arguments are shown in brackets.
fn row(listed: &PromptListing) -> Vec<String> {
    let arguments = listed.prompt.arguments.iter().map(|argument| match argument.required {
        true => argument.name.clone(),
        false => format!("[{}]", argument.name),
    });
    let arguments: Vec<String> = arguments.collect();
    let versions: Vec<String> = listed.versions.iter().map(u32::to_string).collect();
    let about = listed.prompt.description.as_deref().or(listed.prompt.title.as_deref()).unwrap_or("-");
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    vec![
        listed.prompt.name.clone(),
        versions.join(","),
        or_dash(arguments.join(" ")),
        about.lines().next().unwrap_or("-").to_owned(),
    ]
}

fn fill(global: &GlobalOptions, get: Get) -> Result<u8, Error> {
    let yard = Yard::open(global)?;
    let engine = Arc::new(yard.engine()?);
    let filled = small_runtime()?.block_on(async {
        let service = PromptService::new(yard.prompts.clone(), engine.clone());
        let filled = get_prompt(&service, get).await;
        // A tool that produces messages may run as a job.
        if let Some(jobs) = engine.jobs.if_open() {
            jobs.shut_down().await;
        }
        filled
    });
    engine.audit.close();
    let filled = filled?;
    output::line(if global.json { prompt::write_rendered(&filled) } else { prompt::render(&filled).into() });
    Ok(0)
}

async fn get_prompt(service: &PromptService, get: Get) -> Result<RenderedPrompt, Error> {
    let schema = service.inputs(&get.name);
    let words = get.args.map_or(get.arguments, |json| vec![json]);
    let arguments = arguments::from_cli_args(&words, schema.as_ref()).map_err(|error| service.hide(error))?;
    let spinner = output::Spinner::start(format!("filling {}", get.name));
    let caller = TerminalCaller::new(spinner.status());
    let identity = Identity::local();
    let context = RequestContext { identity: &identity, edge: Edge::Cli, trace: None, caller: &caller };
    tokio::select! {
        filled = service.get(&get.name, arguments, context) => filled,
        _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted; the tool was stopped")),
    }
}
