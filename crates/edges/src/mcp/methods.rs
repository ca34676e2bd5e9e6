//! Methods that answer at once and ask no one back, the same in both eras.

use super::{Mcp, catalogue};
use toolyard_engine::Behalf;
use toolyard_protocol::{Completion, Edge, Error, ErrorKind, Identity, Nobody};
use toolyard_wire::jsonrpc::Request;
use toolyard_wire::mcp::completion::{self, Subject};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Revision, hello, lists, meta, prompts, resources, result};

/// Who asks, and how the answer must look.
#[derive(Clone, Copy)]
pub(super) struct Client<'a> {
    pub identity: &'a Identity,
    pub revision: Revision,
}

/// The answer; `None` when there is no such method here.
pub(super) async fn answer(
    mcp: &Mcp,
    client: Client<'_>,
    request: &Request,
) -> Option<Result<Vec<u8>, Failure>> {
    let offer = mcp.offer();
    let Request { id, method, params } = request;
    let revision = client.revision;
    Some(match method.as_str() {
        "tools/list" => catalogue::list(&mcp.engine.registry.snapshot(), id, params, revision),
        "server/discover" if revision.is_stateless() => {
            Ok(hello::write_discover(id, revision, offer, catalogue::KEEP))
        }
        "completion/complete" if offer.prompts || offer.resources => complete(mcp, client, request).await,
        "prompts/list" | "prompt/list" if offer.prompts => list_prompts(mcp, client, request).await,
        "prompt/call" if offer.prompts => call_prompt(client, request),
        "resources/list"
        | "resources/templates/list"
        | "resources/template"
        | "resources/write"
        | "resources/delete"
            if offer.resources =>
        {
            of_resources(mcp, client, request).await
        }
        _ => return None,
    })
}

async fn list_prompts(mcp: &Mcp, client: Client<'_>, request: &Request) -> Result<Vec<u8>, Failure> {
    let cursor = lists::read_cursor(&request.params)?;
    let page = mcp.services.prompts.list(cursor.as_deref(), behalf(client, request)).await;
    let page = page.map_err(|error| failure(&error, client, None))?;
    Ok(prompts::write_list(&request.id, client.revision, &page))
}

/// Filling a prompt in and having a model answer it needs a model. Nothing runs for an answer that cannot come.
fn call_prompt(client: Client<'_>, request: &Request) -> Result<Vec<u8>, Failure> {
    prompts::read_call(&request.params)?;
    let error = Error::new(ErrorKind::Unavailable, "no model configured")
        .hint("'prompts/get' fills the prompt in, for a model of your own");
    Err(failure(&error, client, None))
}

async fn of_resources(mcp: &Mcp, client: Client<'_>, request: &Request) -> Result<Vec<u8>, Failure> {
    let (service, behalf) = (&mcp.services.resources, behalf(client, request));
    let Request { id, method, params } = request;
    let plain = |error: Error| failure(&error, client, None);
    match method.as_str() {
        "resources/list" => {
            let page = service.list(lists::read_cursor(params)?.as_deref(), behalf).await.map_err(plain)?;
            Ok(resources::write_list(id, client.revision, &page))
        }
        "resources/templates/list" | "resources/template" => {
            let page =
                service.templates(lists::read_cursor(params)?.as_deref(), behalf).await.map_err(plain)?;
            Ok(resources::write_templates(id, client.revision, &page))
        }
        "resources/write" => {
            let part = resources::read_part(params)?;
            let uri = part.uri.clone();
            service.write(part, behalf).await.map_err(|error| failure(&error, client, Some(&uri)))?;
            Ok(result::empty(id, client.revision))
        }
        _ => {
            let uri = params.need("uri")?;
            service.delete(&uri, behalf).await.map_err(|error| failure(&error, client, Some(&uri)))?;
            Ok(result::empty(id, client.revision))
        }
    }
}

async fn complete(mcp: &Mcp, client: Client<'_>, request: &Request) -> Result<Vec<u8>, Failure> {
    let (subject, completing) = completion::read(&request.params)?;
    let behalf = behalf(client, request);
    let found: Result<Completion, Error> = match &subject {
        Subject::Prompt(name) => mcp.services.prompts.complete(name, completing, behalf).await,
        Subject::Template(uri) => mcp.services.resources.complete(uri, completing, behalf).await,
    };
    let found = found.map_err(|error| failure(&error, client, None))?;
    Ok(completion::write(&request.id, client.revision, &found))
}

fn failure(error: &Error, client: Client<'_>, uri: Option<&str>) -> Failure {
    Failure::of(error, client.revision, uri)
}

fn behalf<'a>(client: Client<'a>, request: &Request) -> Behalf<'a> {
    Behalf {
        identity: client.identity,
        edge: Edge::Mcp,
        trace: meta::trace(&request.params),
        caller: &Nobody,
    }
}
