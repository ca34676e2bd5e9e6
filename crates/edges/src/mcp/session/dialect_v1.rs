//! Sessions of clients that speak protocol version 1.0 (the MCP 1.0 dialect). Everything else is as in any
//! other session.

use crate::mcp::Mcp;
use crate::mcp::methods::operation::OperationResult;
use crate::mcp::methods::{self, Client, context};
use crate::mcp::session::Session;
use crate::mcp::session::caller::MessageSink;
use crate::mcp::session::dispatch;
use std::future::Future;
use std::sync::Arc;
use toolyard_engine::{RequestContext, Resources};
use toolyard_protocol::{Edge, Error, ErrorKind, NoopCaller, Page};
use toolyard_wire::jsonrpc::{Request, Response};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::v1::{self, REVISION, ResourceAction, ResourceRef};
use toolyard_wire::mcp::{Method, prompts, resources, tools};

/// The most items of a list, which has no pages in this dialect.
const MAX_LISTED: usize = 10_000;

pub(super) async fn handle_request(
    mcp: &Mcp,
    session: &Arc<Session>,
    request: &Request,
    out: MessageSink,
) -> Result<Vec<u8>, Failure> {
    let server_capabilities = || mcp.server_capabilities();
    match request.method {
        Method::ListTools => Ok(list_tools(mcp, request)),
        Method::ListPrompts if server_capabilities().prompts => list_prompts(mcp, session, request).await,
        Method::CallTool => run_operation(mcp, session, request, out).await,
        Method::ReadResource if server_capabilities().resources => {
            run_operation(mcp, session, request, out).await
        }
        Method::ListResources | Method::ListTemplates if server_capabilities().resources => {
            list_resources(mcp, session, request).await
        }
        Method::WriteResource | Method::DeleteResource if server_capabilities().resources => {
            write_or_delete(mcp, session, request).await
        }
        Method::Subscribe if server_capabilities().resources => {
            let subject = ResourceRef::read(&request.params)?;
            dispatch::subscribe_session(mcp, session, request, subject.uri.clone()).await?;
            Ok(v1::write_action_result(&request.id, &subject, ResourceAction::Subscribed))
        }
        Method::Unsubscribe if server_capabilities().resources => {
            let subject = ResourceRef::read(&request.params)?;
            session.unsubscribe(&subject.uri);
            Ok(v1::write_action_result(&request.id, &subject, ResourceAction::Unsubscribed))
        }
        _ => dispatch::handle_standard(mcp, session, request, out).await,
    }
}

/// A result from the client that names a resource ends a subscription; it cannot be anything else, because
/// this client is sent no requests.
pub(super) fn handle_response(session: &Session, response: &Response) -> Option<Vec<u8>> {
    let subject = ResourceRef::from_result(response.result.as_ref().ok()?)?;
    session.unsubscribe(&subject.uri);
    Some(v1::write_action_result(&response.id, &subject, ResourceAction::Unsubscribed))
}

/// The update notification with the resource's current content; `None` when it is no longer watched.
pub(super) async fn updated(resources: &dyn Resources, session: &Session, uri: &str) -> Option<Vec<u8>> {
    let subscription = session.subscription_request(uri)?;
    let context =
        RequestContext { identity: &session.identity, edge: Edge::Mcp, trace: None, caller: &NoopCaller };
    let found = resources.read(uri, context).await;
    Some(v1::updated(&subscription, uri, &found))
}

fn list_tools(mcp: &Mcp, request: &Request) -> Vec<u8> {
    let snapshot = mcp.engine.registry.snapshot();
    v1::write_list(&request.id, snapshot.entries(), |out, entry| {
        tools::push_tool(out, &entry.spec, REVISION);
    })
}

async fn list_prompts(mcp: &Mcp, session: &Session, request: &Request) -> Result<Vec<u8>, Failure> {
    let service = &mcp.services.prompts;
    let found = collect_pages(async |cursor| {
        service.list(cursor.as_deref(), context(&session.identity, request)).await
    })
    .await?;
    Ok(v1::write_list(&request.id, &found, |out, prompt| prompts::push_prompt(out, REVISION, prompt)))
}

async fn list_resources(mcp: &Mcp, session: &Session, request: &Request) -> Result<Vec<u8>, Failure> {
    let (service, id) = (&mcp.services.resources, &request.id);
    if request.method == Method::ListResources {
        let found = collect_pages(async |cursor| {
            service.list(cursor.as_deref(), context(&session.identity, request)).await
        })
        .await?;
        return Ok(v1::write_list(id, &found, |out, item| resources::push_resource(out, REVISION, item)));
    }
    let found = collect_pages(async |cursor| {
        service.templates(cursor.as_deref(), context(&session.identity, request)).await
    })
    .await?;
    Ok(v1::write_list(id, &found, |out, item| resources::push_template(out, REVISION, item)))
}

/// Collects all pages.
async fn collect_pages<T, F>(mut list: impl FnMut(Option<String>) -> F) -> Result<Vec<T>, Failure>
where
    F: Future<Output = Result<Page<T>, Error>>,
{
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = list(cursor).await.map_err(|error| Failure::of(&error, REVISION, None))?;
        all.extend(page.items);
        if all.len() > MAX_LISTED {
            let what = format!("there are more than {MAX_LISTED}, too many for a list without pages");
            let error = Error::new(ErrorKind::OutputTooLarge, what)
                .hint("initialize with 'protocolVersion' to get pages");
            return Err(Failure::of(&error, REVISION, None));
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}

async fn write_or_delete(mcp: &Mcp, session: &Session, request: &Request) -> Result<Vec<u8>, Failure> {
    let subject = ResourceRef::read(&request.params)?;
    let client = Client { identity: &session.identity, revision: REVISION };
    methods::change_resource(mcp, client, request).await?;
    let written = request.method == Method::WriteResource;
    let done = if written { ResourceAction::Written } else { ResourceAction::Deleted };
    Ok(v1::write_action_result(&request.id, &subject, done))
}

async fn run_operation(
    mcp: &Mcp,
    session: &Arc<Session>,
    request: &Request,
    out: MessageSink,
) -> Result<Vec<u8>, Failure> {
    Ok(match dispatch::run_operation(mcp, session, request, out).await? {
        OperationResult::Outcome(outcome) => v1::write_outcome(&request.id, &outcome),
        OperationResult::ReadResult(reading) => {
            v1::write_read_result(&request.id, &request.params.required_text("uri")?, &reading)
        }
        result => result.write(&request.id, REVISION).1,
    })
}
