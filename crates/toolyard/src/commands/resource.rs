//! `toolyard resource list|read|write|delete`: what clients can read, from the terminal.

use crate::output;
use crate::person::Person;
use crate::wiring::{Place, Yard, small_runtime};
use bytes::Bytes;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use toolyard_engine::resources::not_found;
use toolyard_engine::{Behalf, Engine, Resources};
use toolyard_protocol::{
    Body, Edge, Error, ErrorKind, Identity, Nobody, Part, Reading, Resource, ResourceTemplate, text::visible,
};
use toolyard_wire::resource_list;

/// List, read, write and delete resources
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Every resource, then the templates
    List,
    /// Print the content of one
    Read {
        /// Its address, such as yard://notes/today.md
        uri: String,
    },
    /// Replace the content of one, or make it
    Write {
        uri: String,
        /// The file to take the content from; '-' reads stdin
        file: PathBuf,
    },
    /// Remove one
    Delete { uri: String },
}

/// The largest content that is read from a file or stdin.
const MAX: u64 = 1 << 30;

pub fn run(args: Args, place: Place) -> Result<u8, Error> {
    let yard = Yard::open(&place)?;
    let engine = Arc::new(yard.engine()?);
    let done = small_runtime()?.block_on(async {
        tokio::select! {
            done = act(&yard, &engine, args.command, place.json) => done,
            _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
        }
    });
    engine.audit.close();
    done.map(|()| 0)
}

/// What a list says about one resource or template.
pub fn show_one(uri: &str, place: &Place) -> Result<u8, Error> {
    let yard = Yard::open(place)?;
    let engine = Arc::new(yard.engine()?);
    let found = small_runtime()?.block_on(async {
        let opened = yard.resources(&engine)?;
        let identity = Identity::local();
        let behalf = Behalf { identity: &identity, edge: Edge::Cli, trace: None, caller: &Nobody };
        list_all(opened.resources.as_ref(), behalf).await
    });
    engine.audit.close();
    let (mut resources, mut templates) = found?;
    resources.retain(|one| one.uri == uri);
    templates.retain(|one| one.uri_template == uri);
    if resources.is_empty() && templates.is_empty() {
        return Err(not_found(uri));
    }
    if place.json {
        output::line(resource_list::write(&resources, &templates));
        return Ok(0);
    }
    let of_resource = |one: Resource| (one.uri, one.name, [one.title, one.description, one.mime], one.size);
    let of_template =
        |one: ResourceTemplate| (one.uri_template, one.name, [one.title, one.description, one.mime], None);
    let all = resources.into_iter().map(of_resource).chain(templates.into_iter().map(of_template));
    for (address, name, [title, description, mime], size) in all {
        let rows = [
            ("address", Some(address)),
            ("name", Some(name)),
            ("title", title),
            ("description", description),
            ("type", mime),
            ("bytes", size.map(|size| size.to_string())),
        ];
        let rows = rows.into_iter().filter_map(|(word, value)| Some(vec![word.to_owned(), visible(&value?)]));
        output::table(&rows.collect::<Vec<_>>());
    }
    Ok(0)
}

async fn act(yard: &Yard, engine: &Arc<Engine>, command: Command, json: bool) -> Result<(), Error> {
    let opened = yard.resources(engine)?;
    crate::reload::tell(&opened.problems);
    let resources = opened.resources.as_ref();
    let spinner = output::Spinner::start("reading".to_owned());
    let caller = Person::new(spinner.status());
    let identity = Identity::local();
    let behalf = Behalf { identity: &identity, edge: Edge::Cli, trace: None, caller: &caller };
    match command {
        Command::List => {
            let found = list_all(resources, behalf).await?;
            drop(spinner);
            show_list(&found, json);
        }
        Command::Read { uri } => {
            let reading = resources.read(&uri, behalf).await?;
            drop(spinner);
            show(&reading, json);
        }
        Command::Write { uri, file } => {
            let body = content(&file)?;
            let bytes = body.len();
            resources.write(Part { uri: uri.clone(), mime: None, body, meta: None }, behalf).await?;
            tell(&format!("wrote {bytes} bytes to {uri}"), json);
        }
        Command::Delete { uri } => {
            resources.delete(&uri, behalf).await?;
            tell(&format!("deleted {uri}"), json);
        }
    }
    Ok(())
}

type Listed = (Vec<Resource>, Vec<ResourceTemplate>);

async fn list_all(resources: &dyn Resources, behalf: Behalf<'_>) -> Result<Listed, Error> {
    let (mut items, mut templates) = (Vec::new(), Vec::new());
    let mut cursor = None;
    loop {
        let page = resources.list(cursor.as_deref(), behalf).await?;
        items.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    loop {
        let page = resources.templates(cursor.as_deref(), behalf).await?;
        templates.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return Ok((items, templates));
        }
    }
}

fn show_list((resources, templates): &Listed, json: bool) {
    if json {
        return output::line(resource_list::write(resources, templates));
    }
    if resources.is_empty() && templates.is_empty() {
        return output::note("no resources; docs/resources.md says how to make some");
    }
    let cell = |text: Option<&String>| visible(text.map_or("-", String::as_str));
    let mut rows = vec![["ADDRESS", "TYPE", "BYTES", "NAME"].map(str::to_owned).to_vec()];
    for one in resources {
        let size = one.size.map_or("-".to_owned(), |size| size.to_string());
        rows.push(vec![visible(&one.uri), cell(one.mime.as_ref()), size, visible(&one.name)]);
    }
    for one in templates {
        let name = visible(&one.name);
        rows.push(vec![visible(&one.uri_template), cell(one.mime.as_ref()), "-".to_owned(), name]);
    }
    output::table(&rows);
}

fn show(reading: &Reading, json: bool) {
    if json {
        return output::line(resource_list::write_contents(&reading.parts));
    }
    for part in &reading.parts {
        match &part.body {
            Body::Text(text) if output::is_terminal() => output::raw(visible(text)),
            Body::Text(text) => output::raw(text),
            Body::Blob(bytes) if output::is_terminal() => {
                let mime = part.mime.as_deref().unwrap_or("data");
                output::note(format!("{} bytes of {mime}; send them to a file or a pipe", bytes.len()));
            }
            Body::Blob(bytes) => output::raw(bytes),
        }
    }
}

fn tell(what: &str, json: bool) {
    if json { output::line("{}") } else { output::note(visible(what)) }
}

fn content(file: &PathBuf) -> Result<Body, Error> {
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(MAX + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(MAX + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        Error::new(ErrorKind::FileNotFound, format!("{} cannot be read: {error}", file.display()))
    })?;
    if bytes.len() as u64 > MAX {
        return Err(Error::new(ErrorKind::InputTooLarge, format!("{} is over {MAX} bytes", file.display())));
    }
    Ok(Body::Blob(Bytes::from(bytes)))
}
