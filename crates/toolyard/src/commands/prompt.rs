//! `toolyard prompt list | get`: the prompts of the yard, and one of them filled in.

use crate::output;
use crate::person::Person;
use crate::wiring::{Place, Yard, small_runtime};
use std::sync::Arc;
use toolyard_engine::{Behalf, Prompts, Registry};
use toolyard_protocol::{Edge, Error, ErrorKind, Filled, Identity};
use toolyard_runtimes::Library;
use toolyard_runtimes::prompts::Listed;
use toolyard_wire::{arguments, prompt};

/// Work with the prompts of the yard
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
    /// The prompt's name as 'prompt list' shows it, or domain.name; @3 chooses a version
    name: String,
    /// key=value (typed by the prompt's schema) or key:=JSON
    words: Vec<String>,
    /// The arguments as one JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "words")]
    args: Option<String>,
}

pub fn run(args: Args, place: Place) -> Result<u8, Error> {
    match args.command {
        Command::List => list(&place),
        Command::Get(get) => fill(&place, get),
    }
}

fn list(place: &Place) -> Result<u8, Error> {
    let yard = Yard::open(place)?;
    let registry = Registry::new(yard.load());
    let listed = yard.shelf.packs().list(&registry);
    if place.json {
        let rows: Vec<prompt::Row<'_>> = listed
            .iter()
            .map(|row| prompt::Row { prompt: &row.prompt, id: &row.id, versions: &row.versions })
            .collect();
        output::line(prompt::write_list(&rows));
    } else if listed.is_empty() {
        output::note("no prompts here; they live in prompts/, registered in prompts/REGISTRY.yaml");
    } else {
        let mut rows = vec![["NAME", "VERSIONS", "ARGUMENTS", "DESCRIPTION"].map(str::to_owned).to_vec()];
        rows.extend(listed.iter().map(row));
        output::table(&rows);
    }
    Ok(0)
}

/// Arguments that may be left out stand in brackets.
fn row(listed: &Listed) -> Vec<String> {
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

fn fill(place: &Place, get: Get) -> Result<u8, Error> {
    let yard = Yard::open(place)?;
    let engine = Arc::new(yard.engine()?);
    let filled = small_runtime()?.block_on(async {
        let library = Library::new(yard.shelf.clone(), engine.clone());
        let filled = get_here(&library, get).await;
        // A tool that makes messages may be a job.
        if let Some(jobs) = engine.jobs.if_open() {
            jobs.shut_down().await;
        }
        filled
    });
    engine.audit.close();
    let filled = filled?;
    output::line(if place.json { prompt::write_filled(&filled) } else { prompt::render(&filled).into() });
    Ok(0)
}

async fn get_here(library: &Library, get: Get) -> Result<Filled, Error> {
    let schema = library.inputs(&get.name);
    let words = get.args.map_or(get.words, |json| vec![json]);
    let arguments = arguments::from_words(&words, schema.as_ref()).map_err(|error| library.hide(error))?;
    let spinner = output::Spinner::start(format!("filling {}", get.name));
    let caller = Person::new(spinner.status());
    let identity = Identity::local();
    let behalf = Behalf { identity: &identity, edge: Edge::Cli, trace: None, caller: &caller };
    tokio::select! {
        filled = library.get(&get.name, arguments, behalf) => filled,
        _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted; the tool was stopped")),
    }
}
