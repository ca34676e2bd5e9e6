//! `toolyard prompt list|get`: lists the prompts of a yard or of a running server, fills one in.

use crate::output;
use crate::remote::Remote;
use crate::terminal_caller::TerminalCaller;
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use std::sync::Arc;
use toolyard_engine::{Prompts, Registry, RequestContext};
use toolyard_formats::json;
use toolyard_protocol::text::{escape_control, push_json_string};
use toolyard_protocol::{Edge, Error, ErrorKind, Identity, Payload, RenderedPrompt};
use toolyard_wire::mcp::client;
use toolyard_wire::prompt::PromptSummary;
use toolyard_wire::{arguments, prompt};
use toolyard_yard::PromptService;

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
    let list = match &global.url {
        Some(url) => {
            let remote = Remote::new(url, global)?;
            let items = small_runtime()?.block_on(remote.mcp_list("prompts/list", "prompts"))?;
            let mut out = Vec::new();
            json::array(&mut out, &items, |out, item| out.extend_from_slice(item));
            out
        }
        None => list_local(&Yard::look_at_files(global)?),
    };
    if global.json {
        output::data(list);
        return Ok(0);
    }
    let prompts = prompt::read_list(&list)
        .map_err(|what| Error::new(ErrorKind::InvalidOutput, format!("invalid list of prompts: {what}")))?;
    let mut rows = vec![["NAME", "VERSIONS", "ARGUMENTS", "DESCRIPTION"].map(str::to_owned).to_vec()];
    rows.extend(prompts.iter().map(row));
    match rows.len() {
        1 => output::note("no prompts found; register them in prompts/REGISTRY.yaml"),
        _ => output::table(&rows),
    }
    Ok(0)
}

fn list_local(yard: &Yard) -> Vec<u8> {
    let registry = Registry::new(yard.load());
    let listed = yard.prompts.packs().list(&registry);
    let rows: Vec<prompt::Row<'_>> = listed
        .iter()
        .map(|row| prompt::Row { prompt: &row.prompt, id: &row.id, versions: &row.versions })
        .collect();
    prompt::write_list(&rows)
}

/// Optional arguments are shown in brackets. A server does not list the versions.
fn row(listed: &PromptSummary) -> Vec<String> {
    let arguments = listed.arguments.iter().map(|argument| match argument.required {
        true => argument.name.clone(),
        false => format!("[{}]", argument.name),
    });
    let arguments: Vec<String> = arguments.collect();
    let versions: Vec<String> = listed.versions.iter().map(u32::to_string).collect();
    let about = listed.description.as_deref().or(listed.title.as_deref()).unwrap_or("-");
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { escape_control(&text) };
    vec![
        escape_control(&listed.name),
        or_dash(versions.join(",")),
        or_dash(arguments.join(" ")),
        escape_control(about.lines().next().unwrap_or("-")),
    ]
}

fn fill(global: &GlobalOptions, get: Get) -> Result<u8, Error> {
    let filled = match &global.url {
        Some(url) => small_runtime()?.block_on(get_remote(Remote::new(url, global)?, get))?,
        None => fill_local(global, get)?,
    };
    output::data(if global.json { prompt::write_rendered(&filled) } else { prompt::render(&filled).into() });
    Ok(0)
}

/// The server converts texts to the types of its schema, which it does not list.
async fn get_remote(remote: Remote, get: Get) -> Result<RenderedPrompt, Error> {
    let words = get.args.map_or(get.arguments, |json| vec![json]);
    let arguments = arguments::from_cli_args(&words, Some(&text_schema(&words)))?;
    let mut name = Vec::new();
    push_json_string(&mut name, &get.name);
    let _spinner = output::Spinner::start(format!("filling {}", get.name));
    let params = [("name", name.as_slice()), ("arguments", arguments.bytes())];
    tokio::select! {
        filled = remote.mcp("prompts/get", Some(&get.name), &params) => client::read_prompt(&filled?),
        // Closing the connection cancels the request on the server.
        _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted; the server stops the tool")),
    }
}

/// A schema by which every `key=value` is a text.
fn text_schema(words: &[String]) -> Payload {
    let mut out = Vec::new();
    let mut object = json::Object::new(&mut out);
    let mut properties = json::Object::new(object.member("properties"));
    for (key, _) in words.iter().filter_map(|word| word.split_once('=')) {
        properties.raw(key, br#"{"type":"string"}"#);
    }
    properties.end();
    object.end();
    Payload::json(out)
}

fn fill_local(global: &GlobalOptions, get: Get) -> Result<RenderedPrompt, Error> {
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
    filled
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
