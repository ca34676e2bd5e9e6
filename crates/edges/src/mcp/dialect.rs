//! Sessions of clients that speak protocol version 1.0, the dialect of seed 000. What it does not change is as in any
//! other session.

use super::Mcp;
use super::handshake;
use super::session::Session;
use super::session_caller::{Out, SessionCaller};
use super::talk::{self, Said, Talk, Who};
use std::future::Future;
use std::sync::Arc;
use toolyard_engine::{Behalf, Resources};
use toolyard_protocol::{Edge, Error, ErrorKind, Nobody, Page};
use toolyard_wire::jsonrpc::{Request, Response};
use toolyard_wire::mcp::dialect::{self, Done, REVISION, Subject};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{meta, prompts, resources, tools};

/// How seed 000 names the end of a subscription.
pub(super) const UNSUBSCRIBED: &str = "notification/resources/unsubscribed";

/// A list is one array without pages, so it must fit.
const MAX_LISTED: usize = 10_000;

pub(super) async fn answer(
    mcp: &Mcp,
    session: &Arc<Session>,
    request: &Request,
    out: Out,
) -> Result<Vec<u8>, Failure> {
    let offer = mcp.offer();
    match request.method.as_str() {
        "tools/list" => Ok(list_tools(mcp, request)),
        "prompt/list" | "prompts/list" if offer.prompts => list_prompts(mcp, session, request).await,
        "tools/call" => talk(mcp, session, request, out).await,
        "resources/read" if offer.resources => talk(mcp, session, request, out).await,
        "resources/list" | "resources/template" | "resources/templates/list" if offer.resources => {
            list_resources(mcp, session, request).await
        }
        "resources/write" | "resources/delete" if offer.resources => change(mcp, session, request).await,
        "resources/subscribe" if offer.resources => {
            let subject = Subject::read(&request.params)?;
            handshake::watch(mcp, session, request, subject.uri.clone()).await?;
            Ok(dialect::write_done(&request.id, &subject, Done::Subscribed))
        }
        "resources/unsubscribe" | UNSUBSCRIBED if offer.resources => {
            let subject = Subject::read(&request.params)?;
            session.unwatch(&subject.uri);
            Ok(dialect::write_done(&request.id, &subject, Done::Unsubscribed))
        }
        _ => handshake::standard(mcp, session, request, out).await,
    }
}

/// A result from the client that names a resource ends a subscription: we ask this client nothing, so it can be nothing
/// else.
pub(super) fn responded(session: &Session, response: &Response) -> Option<Vec<u8>> {
    let subject = Subject::of_result(response.result.as_ref().ok()?)?;
    session.unwatch(&subject.uri);
    Some(dialect::write_done(&response.id, &subject, Done::Unsubscribed))
}

/// What is in a watched resource now; `None` when it is no longer watched.
pub(super) async fn updated(resources: &dyn Resources, session: &Session, uri: &str) -> Option<Vec<u8>> {
    let subscription = session.subscription(uri)?;
    let behalf = Behalf { identity: &session.identity, edge: Edge::Mcp, trace: None, caller: &Nobody };
    let found = resources.read(uri, behalf).await;
    Some(dialect::updated(&subscription, uri, &found))
}

fn list_tools(mcp: &Mcp, request: &Request) -> Vec<u8> {
    let snapshot = mcp.engine.registry.snapshot();
    dialect::write_list(&request.id, snapshot.entries(), |out, entry| {
        tools::push_tool(out, &entry.spec, REVISION);
    })
}

async fn list_prompts(mcp: &Mcp, session: &Session, request: &Request) -> Result<Vec<u8>, Failure> {
    let service = &mcp.services.prompts;
    let found = whole(async |cursor| service.list(cursor.as_deref(), behalf(session, request)).await).await?;
    Ok(dialect::write_list(&request.id, &found, |out, prompt| prompts::push_prompt(out, REVISION, prompt)))
}

async fn list_resources(mcp: &Mcp, session: &Session, request: &Request) -> Result<Vec<u8>, Failure> {
    let (service, id) = (&mcp.services.resources, &request.id);
    if request.method == "resources/list" {
        let found =
            whole(async |cursor| service.list(cursor.as_deref(), behalf(session, request)).await).await?;
        return Ok(dialect::write_list(id, &found, |out, item| {
            resources::push_resource(out, REVISION, item)
        }));
    }
    let found =
        whole(async |cursor| service.templates(cursor.as_deref(), behalf(session, request)).await).await?;
    Ok(dialect::write_list(id, &found, |out, item| resources::push_template(out, REVISION, item)))
}

/// Every page, one after the other.
async fn whole<T, F>(mut list: impl FnMut(Option<String>) -> F) -> Result<Vec<T>, Failure>
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
                .hint("initialise with 'protocolVersion' to have pages");
            return Err(Failure::of(&error, REVISION, None));
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}

async fn change(mcp: &Mcp, session: &Session, request: &Request) -> Result<Vec<u8>, Failure> {
    let (service, behalf) = (&mcp.services.resources, behalf(session, request));
    let subject = Subject::read(&request.params)?;
    let (changed, done) = if request.method == "resources/write" {
        (service.write(resources::read_part(&request.params)?, behalf).await, Done::Written)
    } else {
        (service.delete(&subject.uri, behalf).await, Done::Deleted)
    };
    changed.map_err(|error| Failure::of(&error, REVISION, Some(&subject.uri)))?;
    Ok(dialect::write_done(&request.id, &subject, done))
}

async fn talk(mcp: &Mcp, session: &Arc<Session>, request: &Request, out: Out) -> Result<Vec<u8>, Failure> {
    let talk = Talk::read(mcp, request).ok_or_else(|| Failure::unknown_method(&request.method))??;
    let uri = talk.subject().0.to_owned();
    let who = Who::new(session.identity.clone(), REVISION, false, request);
    let caller = SessionCaller::new(session.clone(), out, meta::progress_token(&request.params));
    Ok(match talk::run(mcp, talk, &who, &caller).await {
        Said::Outcome(outcome) => dialect::write_outcome(&request.id, &outcome),
        Said::Reading(reading) => dialect::write_reading(&request.id, &uri, &reading),
        said => said.write(&request.id, REVISION).1,
    })
}

fn behalf<'a>(session: &'a Session, request: &Request) -> Behalf<'a> {
    let trace = meta::trace(&request.params);
    Behalf { identity: &session.identity, edge: Edge::Mcp, trace, caller: &Nobody }
}
