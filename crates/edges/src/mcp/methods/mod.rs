//! Methods that are answered at once, without questions; the same in both eras.

pub(super) mod changes;
pub(super) mod operation;
pub(super) mod tasks;
pub(super) mod tool_list;

use crate::mcp::Mcp;
use toolyard_engine::RequestContext;
use toolyard_protocol::{Completion, Edge, Error, ErrorKind, Identity, NoopCaller};
use toolyard_wire::jsonrpc::Request;
use toolyard_wire::mcp::completion::{self, CompletionTarget};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Method, Revision, initialize, lists, meta, prompts, resources, result};

/// Who sent the request, and in which revision to answer.
#[derive(Clone, Copy)]
pub(super) struct Client<'a> {
    pub identity: &'a Identity,
    pub revision: Revision,
}

/// The response; `None` when the method is not one of these.
pub(super) async fn dispatch(
    mcp: &Mcp,
    client: Client<'_>,
    request: &Request,
) -> Option<Result<Vec<u8>, Failure>> {
    let server_capabilities = || mcp.server_capabilities();
    let Request { id, method, params } = request;
    let revision = client.revision;
    Some(match method {
        Method::ListTools => tool_list::list(&mcp.engine.registry.snapshot(), id, params, revision),
        Method::Discover if revision.is_stateless() => {
            Ok(initialize::write_discover(id, revision, server_capabilities(), tool_list::LIST_CACHE_HINT))
        }
        Method::Complete if server_capabilities().prompts || server_capabilities().resources => {
            complete(mcp, client, request).await
        }
        Method::ListPrompts if server_capabilities().prompts => list_prompts(mcp, client, request).await,
        Method::CallPrompt if server_capabilities().prompts => call_prompt(client, request),
        Method::ListResources | Method::ListTemplates | Method::WriteResource | Method::DeleteResource
            if server_capabilities().resources =>
        {
            handle_resources(mcp, client, request).await
        }
        _ => return None,
    })
}

async fn list_prompts(mcp: &Mcp, client: Client<'_>, request: &Request) -> Result<Vec<u8>, Failure> {
    let cursor = lists::read_cursor(&request.params)?;
    let page = mcp.services.prompts.list(cursor.as_deref(), context(client.identity, request)).await;
    let page = page.map_err(|error| failure(&error, client, None))?;
    Ok(prompts::write_list(&request.id, client.revision, &page))
}

/// `prompt/call` needs a model, and none can be configured yet. Nothing runs.
fn call_prompt(client: Client<'_>, request: &Request) -> Result<Vec<u8>, Failure> {
    prompts::read_call(&request.params)?;
    let error = Error::new(ErrorKind::Unavailable, "no model configured")
        .hint("use 'prompts/get' to render the prompt for your own model");
    Err(failure(&error, client, None))
}

async fn handle_resources(mcp: &Mcp, client: Client<'_>, request: &Request) -> Result<Vec<u8>, Failure> {
    let (service, context) = (&mcp.services.resources, context(client.identity, request));
    let Request { id, method, params } = request;
    let to_failure = |error: Error| failure(&error, client, None);
    match method {
        Method::ListResources => {
            let page =
                service.list(lists::read_cursor(params)?.as_deref(), context).await.map_err(to_failure)?;
            Ok(resources::write_list(id, client.revision, &page))
        }
        Method::ListTemplates => {
            let page = service
                .templates(lists::read_cursor(params)?.as_deref(), context)
                .await
                .map_err(to_failure)?;
            Ok(resources::write_templates(id, client.revision, &page))
        }
        _ => {
            change_resource(mcp, client, request).await?;
            Ok(result::empty(id, client.revision))
        }
    }
}

/// `resources/write` and `resources/delete`.
pub(super) async fn change_resource(mcp: &Mcp, client: Client<'_>, request: &Request) -> Result<(), Failure> {
    let (service, context) = (&mcp.services.resources, context(client.identity, request));
    let uri = request.params.required_text("uri")?;
    let changed = match request.method {
        Method::WriteResource => service.write(resources::read_part(&request.params)?, context).await,
        _ => service.delete(&uri, context).await,
    };
    changed.map_err(|error| failure(&error, client, Some(&uri)))
}

async fn complete(mcp: &Mcp, client: Client<'_>, request: &Request) -> Result<Vec<u8>, Failure> {
    let (subject, completing) = completion::read(&request.params)?;
    let context = context(client.identity, request);
    let found: Result<Completion, Error> = match &subject {
        CompletionTarget::Prompt(name) => mcp.services.prompts.complete(name, completing, context).await,
        CompletionTarget::Template(uri) => mcp.services.resources.complete(uri, completing, context).await,
    };
    let found = found.map_err(|error| failure(&error, client, None))?;
    Ok(completion::write(&request.id, client.revision, &found))
}

fn failure(error: &Error, client: Client<'_>, uri: Option<&str>) -> Failure {
    Failure::of(error, client.revision, uri)
}

/// The context of a request that neither asks nor reports progress.
pub(super) fn context<'a>(identity: &'a Identity, request: &Request) -> RequestContext<'a> {
    let trace = meta::trace(&request.params);
    RequestContext { identity, edge: Edge::Mcp, trace, caller: &NoopCaller }
}
