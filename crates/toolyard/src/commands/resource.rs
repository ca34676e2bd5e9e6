//! `toolyard resource list|read|write|delete`: the resources of the yard, from the terminal.

use crate::output;
use crate::terminal_caller::TerminalCaller;
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use bytes::Bytes;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use toolyard_engine::resources::not_found;
use toolyard_engine::{Engine, RequestContext, Resources};
use toolyard_formats::json;
use toolyard_protocol::{
    Body, Edge, Error, ErrorKind, Identity, NoopCaller, ReadResult, Resource, ResourceContents,
    ResourceTemplate, text::escape_control,
};
use toolyard_wire::mcp::{Revision, resources as mcp};

/// List, read, write and delete resources
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List resources and resource templates
    List,
    /// Print the content of a resource
    Read {
        /// The address, such as yard://notes/today.md
        uri: String,
    },
    /// Replace the content of a resource, or create it
    Write {
        uri: String,
        /// The file with the content, or '-' to read stdin
        file: PathBuf,
    },
    /// Delete a resource
    Delete { uri: String },
}

/// The largest content that is read from a file or stdin, in bytes.
const MAX: u64 = 1 << 30;

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    let yard = Yard::open(&global)?;
    let engine = Arc::new(yard.engine()?);
    let done = small_runtime()?.block_on(async {
        tokio::select! {
            done = run_command(&yard, &engine, args.command, global.json) => done,
            _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
        }
    });
    engine.audit.close();
    done.map(|()| 0)
}

/// Prints the list entry of one resource or template.
pub fn show_one(uri: &str, global: &GlobalOptions) -> Result<u8, Error> {
    let yard = Yard::open(global)?;
    let engine = Arc::new(yard.engine()?);
    let found = small_runtime()?.block_on(async {
        let opened = yard.resources(&engine)?;
        let identity = Identity::local();
        let context =
            RequestContext { identity: &identity, edge: Edge::Cli, trace: None, caller: &NoopCaller };
        list_all(opened.resources.as_ref(), context).await
    });
    engine.audit.close();
    let (mut resources, mut templates) = found?;
    resources.retain(|one| one.uri == uri);
    templates.retain(|one| one.uri_template == uri);
    if resources.is_empty() && templates.is_empty() {
        return Err(not_found(uri));
    }
    if global.json {
        output::line(list_json(&resources, &templates));
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
        let rows =
            rows.into_iter().filter_map(|(word, value)| Some(vec![word.to_owned(), escape_control(&value?)]));
        output::table(&rows.collect::<Vec<_>>());
    }
    Ok(0)
}

async fn run_command(yard: &Yard, engine: &Arc<Engine>, command: Command, json: bool) -> Result<(), Error> {
    let opened = yard.resources(engine)?;
    crate::reload::print_problems(&opened.problems);
    let resources = opened.resources.as_ref();
    let spinner = output::Spinner::start("reading".to_owned());
    let caller = TerminalCaller::new(spinner.status());
    let identity = Identity::local();
    let context = RequestContext { identity: &identity, edge: Edge::Cli, trace: None, caller: &caller };
    match command {
        Command::List => {
            let found = list_all(resources, context).await?;
            drop(spinner);
            show_list(&found, json);
        }
        Command::Read { uri } => {
            let reading = resources.read(&uri, context).await?;
            drop(spinner);
            show(&reading, json);
        }
        Command::Write { uri, file } => {
            let body = content(&file)?;
            let bytes = body.len();
            resources
                .write(ResourceContents { uri: uri.clone(), mime: None, body, meta: None }, context)
                .await?;
            print_done(&format!("wrote {bytes} bytes to {uri}"), json);
        }
        Command::Delete { uri } => {
            resources.delete(&uri, context).await?;
            print_done(&format!("deleted {uri}"), json);
        }
    }
    Ok(())
}

type Listing = (Vec<Resource>, Vec<ResourceTemplate>);

async fn list_all(resources: &dyn Resources, context: RequestContext<'_>) -> Result<Listing, Error> {
    let (mut items, mut templates) = (Vec::new(), Vec::new());
    let mut cursor = None;
    loop {
        let page = resources.list(cursor.as_deref(), context).await?;
        items.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    loop {
        let page = resources.templates(cursor.as_deref(), context).await?;
        templates.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return Ok((items, templates));
        }
    }
}

fn show_list((resources, templates): &Listing, json: bool) {
    if json {
        return output::line(list_json(resources, templates));
    }
    if resources.is_empty() && templates.is_empty() {
        return output::note("no resources found; see docs/resources.md");
    }
    let cell = |text: Option<&String>| escape_control(text.map_or("-", String::as_str));
    let mut rows = vec![["ADDRESS", "TYPE", "BYTES", "NAME"].map(str::to_owned).to_vec()];
    for one in resources {
        let size = one.size.map_or("-".to_owned(), |size| size.to_string());
        rows.push(vec![escape_control(&one.uri), cell(one.mime.as_ref()), size, escape_control(&one.name)]);
    }
    for one in templates {
        let name = escape_control(&one.name);
        rows.push(vec![escape_control(&one.uri_template), cell(one.mime.as_ref()), "-".to_owned(), name]);
    }
    output::table(&rows);
}

fn show(reading: &ReadResult, json: bool) {
    if json {
        let mut out = Vec::new();
        let mut object = json::Object::new(&mut out);
        json::array(object.member("contents"), &reading.parts, mcp::push_part);
        object.end();
        return output::line(out);
    }
    for part in &reading.parts {
        match &part.body {
            Body::Text(text) if output::stdout_is_terminal() => output::raw(escape_control(text)),
            Body::Text(text) => output::raw(text),
            Body::Blob(bytes) if output::stdout_is_terminal() => {
                let mime = part.mime.as_deref().unwrap_or("data");
                output::note(format!("{} bytes of {mime}; redirect them to a file or a pipe", bytes.len()));
            }
            Body::Blob(bytes) => output::raw(bytes),
        }
    }
}

/// `{"resources": […], "resourceTemplates": […]}` with the members that MCP defines.
fn list_json(resources: &[Resource], templates: &[ResourceTemplate]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = json::Object::new(&mut out);
    let newest = Revision::NEWEST;
    json::array(object.member("resources"), resources, |out, one| mcp::push_resource(out, newest, one));
    json::array(object.member("resourceTemplates"), templates, |out, one| {
        mcp::push_template(out, newest, one)
    });
    object.end();
    out
}

fn print_done(what: &str, json: bool) {
    if json { output::line("{}") } else { output::note(escape_control(what)) }
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
