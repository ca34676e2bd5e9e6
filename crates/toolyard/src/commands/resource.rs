//! `toolyard resource list|read|write|rm`: the resources of a yard or of a running server.

use crate::input;
use crate::output;
use crate::remote::Remote;
use crate::terminal_caller::TerminalCaller;
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;
use toolyard_engine::resources::not_found;
use toolyard_engine::{RequestContext, Resources};
use toolyard_formats::json;
use toolyard_protocol::text::{escape_control, push_json_string};
use toolyard_protocol::{Body, Edge, Error, ErrorKind, Identity, NoopCaller, ResourceContents, base64};
use toolyard_wire::mcp::{Revision, client, resources as mcp};

/// List, read, write and remove resources
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List resources and resource templates
    List,
    #[command(flatten)]
    One(OneResource),
}

/// Operations on one resource.
#[derive(clap::Subcommand)]
enum OneResource {
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
    /// Remove a resource
    #[command(alias = "delete")]
    Rm { uri: String },
}

/// The largest content that is read from a file or stdin, in bytes.
const MAX: u64 = 1 << 30;

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    match args.command {
        Command::List => show_list(&list(&global)?, global.json)?,
        Command::One(operation) => {
            let done = small_runtime()?.block_on(async {
                tokio::select! {
                    done = run_operation(&operation, &global) => done,
                    _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
                }
            });
            print_done(&operation, done?, global.json);
        }
    }
    Ok(0)
}

/// Prints the list entry of one resource or template.
pub fn show_one(uri: &str, global: &GlobalOptions) -> Result<u8, Error> {
    let mut found = list(global)?;
    let mut shown = None;
    for list in [&mut found.resources, &mut found.templates] {
        let mut kept = Vec::new();
        for item in std::mem::take(list) {
            let one = client::read_resource(&item)?;
            if one.uri == uri {
                shown.get_or_insert(one);
                kept.push(item);
            }
        }
        *list = kept;
    }
    let one = shown.ok_or_else(|| not_found(uri))?;
    if global.json {
        output::data(found.to_json());
        return Ok(0);
    }
    let rows = [
        ("address", Some(one.uri)),
        ("name", Some(one.name)),
        ("title", one.title),
        ("description", one.description),
        ("type", one.mime),
        ("bytes", one.size.map(|size| size.to_string())),
    ];
    let rows =
        rows.into_iter().filter_map(|(word, value)| Some(vec![word.to_owned(), escape_control(&value?)]));
    output::table(&rows.collect::<Vec<_>>());
    Ok(0)
}

/// The lists of a yard or of a server, each item in the form of MCP.
struct Listing {
    resources: Vec<Bytes>,
    templates: Vec<Bytes>,
}

impl Listing {
    /// `{"resources": […], "resourceTemplates": […]}`.
    fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = json::Object::new(&mut out);
        for (name, items) in [("resources", &self.resources), ("resourceTemplates", &self.templates)] {
            json::array(object.member(name), items, |out, item| out.extend_from_slice(item));
        }
        object.end();
        out
    }
}

fn list(global: &GlobalOptions) -> Result<Listing, Error> {
    small_runtime()?.block_on(async {
        tokio::select! {
            listed = list_all(global) => listed,
            _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
        }
    })
}

async fn list_all(global: &GlobalOptions) -> Result<Listing, Error> {
    if let Some(url) = &global.url {
        let remote = Remote::new(url, global)?;
        return Ok(Listing {
            resources: remote.mcp_list("resources/list", "resources").await?,
            templates: remote.mcp_list("resources/templates/list", "resourceTemplates").await?,
        });
    }
    let yard = Yard::look(global)?;
    let opened = yard.resources(&Arc::new(yard.engine()?))?;
    crate::reload::print_problems(&opened.problems);
    let identity = Identity::local();
    let context = RequestContext { identity: &identity, edge: Edge::Cli, trace: None, caller: &NoopCaller };
    let (source, newest) = (opened.resources.as_ref(), Revision::NEWEST);
    let mut listing = Listing { resources: Vec::new(), templates: Vec::new() };
    let mut cursor = None;
    loop {
        let page = source.list(cursor.as_deref(), context).await?;
        listing
            .resources
            .extend(page.items.iter().map(|one| raw(|out| mcp::push_resource(out, newest, one))));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    loop {
        let page = source.templates(cursor.as_deref(), context).await?;
        listing
            .templates
            .extend(page.items.iter().map(|one| raw(|out| mcp::push_template(out, newest, one))));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(listing);
        }
    }
}

fn raw(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::new();
    write(&mut out);
    out.into()
}

/// Returns what was read, or the number of bytes written.
async fn run_operation(operation: &OneResource, global: &GlobalOptions) -> Result<Done, Error> {
    // Read before the yard is opened, so that a missing file changes nothing.
    let content = match operation {
        OneResource::Write { file, .. } => input::read(file, MAX)?,
        _ => Bytes::new(),
    };
    if let Some(url) = &global.url {
        return run_remote(operation, content, &Remote::new(url, global)?).await;
    }
    let yard = Yard::open(global)?;
    let engine = Arc::new(yard.engine()?);
    let opened = yard.resources(&engine)?;
    crate::reload::print_problems(&opened.problems);
    let done = run_local(operation, content, opened.resources.as_ref()).await;
    engine.audit.close();
    done
}

enum Done {
    Read(Vec<ResourceContents>),
    Wrote(usize),
    Removed,
}

async fn run_local(
    operation: &OneResource,
    content: Bytes,
    resources: &dyn Resources,
) -> Result<Done, Error> {
    let spinner = output::Spinner::start("reading".to_owned());
    let caller = TerminalCaller::new(spinner.status());
    let identity = Identity::local();
    let context = RequestContext { identity: &identity, edge: Edge::Cli, trace: None, caller: &caller };
    match operation {
        OneResource::Read { uri } => Ok(Done::Read(resources.read(uri, context).await?.parts)),
        OneResource::Write { uri, .. } => {
            let bytes = content.len();
            let body = Body::Blob(content);
            let content = ResourceContents { uri: uri.clone(), mime: None, body, meta: None };
            resources.write(content, context).await.map(|()| Done::Wrote(bytes))
        }
        OneResource::Rm { uri } => resources.delete(uri, context).await.map(|()| Done::Removed),
    }
}

async fn run_remote(operation: &OneResource, content: Bytes, remote: &Remote) -> Result<Done, Error> {
    let text = |text: &str| raw(|out| push_json_string(out, text));
    let _spinner = output::Spinner::start("waiting for the server".to_owned());
    match operation {
        OneResource::Read { uri } => {
            let read = remote.mcp("resources/read", Some(uri), &[("uri", &text(uri))]).await?;
            client::read_contents(&read).map(Done::Read)
        }
        OneResource::Write { uri, .. } => {
            let blob = text(&base64::encode(&content));
            remote.mcp("resources/write", None, &[("uri", &text(uri)), ("blob", &blob)]).await?;
            Ok(Done::Wrote(content.len()))
        }
        OneResource::Rm { uri } => {
            remote.mcp("resources/delete", None, &[("uri", &text(uri))]).await.map(|_| Done::Removed)
        }
    }
}

fn show_list(listing: &Listing, json: bool) -> Result<(), Error> {
    if json {
        output::data(listing.to_json());
        return Ok(());
    }
    let cell = |text: Option<&str>| escape_control(text.unwrap_or("-"));
    let mut rows = vec![["ADDRESS", "TYPE", "BYTES", "NAME"].map(str::to_owned).to_vec()];
    for item in listing.resources.iter().chain(&listing.templates) {
        let one = client::read_resource(item)?;
        let size = one.size.map_or("-".to_owned(), |size| size.to_string());
        rows.push(vec![escape_control(&one.uri), cell(one.mime.as_deref()), size, escape_control(&one.name)]);
    }
    match rows.len() {
        1 => output::note("no resources found; see docs/resources.md"),
        _ => output::table(&rows),
    }
    Ok(())
}

fn print_done(operation: &OneResource, done: Done, json: bool) {
    let (OneResource::Read { uri } | OneResource::Write { uri, .. } | OneResource::Rm { uri }) = operation;
    match done {
        Done::Read(parts) => show(&parts, json),
        _ if json => output::data("{}"),
        Done::Wrote(bytes) => output::note(escape_control(&format!("wrote {bytes} bytes to {uri}"))),
        Done::Removed => output::note(escape_control(&format!("removed {uri}"))),
    }
}

fn show(parts: &[ResourceContents], json: bool) {
    if json {
        let mut out = Vec::new();
        let mut object = json::Object::new(&mut out);
        json::array(object.member("contents"), parts, mcp::push_part);
        object.end();
        return output::data(out);
    }
    for part in parts {
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
