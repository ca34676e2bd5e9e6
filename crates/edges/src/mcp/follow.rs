//! Jobs: waited for on behalf of clients that do not know tasks, shown to those that do.

use super::{Mcp, talk};
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};
use toolyard_protocol::{Caller, Error, ErrorKind, Id, Identity, Outcome};
use toolyard_wire::jsonrpc::Request;
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Revision, ask, result, tasks};

/// Changes are told; this is for those that got lost.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Waits for the job's end, passes its progress on, and asks what it asks.
pub(super) async fn to_the_end(
    mcp: &Mcp,
    job: Id,
    identity: &Identity,
    caller: &dyn Caller,
    begun: Outcome,
) -> Outcome {
    let mut changes = mcp.services.tasks.changes();
    let mut shown = None;
    loop {
        let task = match mcp.services.tasks.get(job, identity).await {
            Ok(Some(task)) => task,
            Ok(None) => return begun,
            Err(error) => return Outcome::failure(error),
        };
        if task.job.state.is_over() {
            return task.outcome.unwrap_or_else(|| {
                let message = format!("the job {job} ended as {}", task.job.state.as_str());
                Outcome::failure(Error::new(ErrorKind::Cancelled, message))
            });
        }
        if task.job.progress != shown {
            shown = task.job.progress.clone();
            if let Some(progress) = task.job.progress {
                caller.progress(progress);
            }
        }
        if let Some(question) = task.questions.into_iter().next() {
            let key = question.key.clone();
            let answer = match caller.ask(question).await {
                Ok(answer) => answer.0,
                Err(error) => return Outcome::failure(error),
            };
            if let Err(error) = mcp.services.tasks.answer(job, identity, vec![(key, answer)]).await {
                return Outcome::failure(error);
            }
            continue;
        }
        let _ = tokio::time::timeout(LOOK_AGAIN, changed(&mut changes, job)).await;
    }
}

async fn changed(changes: &mut broadcast::Receiver<Id>, job: Id) {
    loop {
        match changes.recv().await {
            Ok(id) if id != job => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// `tasks/get`, `tasks/update` and `tasks/cancel`; `None` for other methods.
pub(super) async fn answer(
    mcp: &Mcp,
    identity: &Identity,
    declared: bool,
    request: &Request,
    revision: Revision,
) -> Option<Result<Vec<u8>, Failure>> {
    let known = matches!(request.method.as_str(), "tasks/get" | "tasks/update" | "tasks/cancel");
    if !known || !mcp.services.tasks.are_there() {
        return None;
    }
    if !declared {
        return Some(Err(Failure::missing_capability(tasks::REQUIRED)));
    }
    Some(one(mcp, identity, request, revision).await)
}

async fn one(
    mcp: &Mcp,
    identity: &Identity,
    request: &Request,
    revision: Revision,
) -> Result<Vec<u8>, Failure> {
    let gone = || Failure::params("there is no task of that id");
    let id = tasks::read_id(&request.params)?.ok_or_else(gone)?;
    let (service, plain) = (&mcp.services.tasks, |error: Error| Failure::of(&error, revision, None));
    let done = match request.method.as_str() {
        "tasks/get" => {
            let task = service.get(id, identity).await.map_err(plain)?.ok_or_else(gone)?;
            return Ok(tasks::write_task(&request.id, revision, &talk::view(&task)));
        }
        "tasks/cancel" => service.cancel(id, identity).await.map_err(plain)?,
        _ => {
            let raw =
                request.params.object("inputResponses")?.ok_or("'inputResponses' is missing".to_owned())?;
            service.answer(id, identity, ask::read_responses(&raw)).await.map_err(plain)?
        }
    };
    if done { Ok(result::empty(&request.id, revision)) } else { Err(gone()) }
}
