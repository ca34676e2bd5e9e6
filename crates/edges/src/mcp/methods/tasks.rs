//! Jobs as MCP tasks: get, update and cancel, for clients that declared the capability.

use crate::mcp::{Mcp, methods::operation};
use toolyard_protocol::{Error, Id, Identity};
use toolyard_wire::jsonrpc::Request;
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Method, Revision, TaskMethod, input_requests, result, tasks};

/// `tasks/get`, `tasks/update` and `tasks/cancel`; `None` for other methods.
pub(in crate::mcp) async fn answer(
    mcp: &Mcp,
    identity: &Identity,
    declared: bool,
    request: &Request,
    revision: Revision,
) -> Option<Result<Vec<u8>, Failure>> {
    let Method::Task(method) = request.method else { return None };
    if !mcp.services.tasks.is_available() {
        return None;
    }
    if !declared {
        return Some(Err(Failure::missing_capability(tasks::REQUIRED)));
    }
    Some(handle(mcp, method, identity, request, revision).await)
}

async fn handle(
    mcp: &Mcp,
    method: TaskMethod,
    identity: &Identity,
    request: &Request,
    revision: Revision,
) -> Result<Vec<u8>, Failure> {
    let not_found = || Failure::params("task not found");
    let id = tasks::read_id(&request.params)?.ok_or_else(not_found)?;
    let (service, to_failure) = (&mcp.services.tasks, |error: Error| Failure::of(&error, revision, None));
    let done = match method {
        TaskMethod::Get => {
            let task = service.get(id, identity).await.map_err(to_failure)?.ok_or_else(not_found)?;
            return Ok(tasks::write_task(&request.id, revision, &operation::task_view(&task)));
        }
        TaskMethod::Cancel => service.cancel(id, identity).await.map_err(to_failure)?,
        TaskMethod::Update => update(mcp, id, identity, request, revision).await?,
    };
    if done { Ok(result::empty(&request.id, revision)) } else { Err(not_found()) }
}

/// Answers without an open question, or of the wrong form, are ignored.
async fn update(
    mcp: &Mcp,
    id: Id,
    identity: &Identity,
    request: &Request,
    revision: Revision,
) -> Result<bool, Failure> {
    let (service, to_failure) = (&mcp.services.tasks, |error: Error| Failure::of(&error, revision, None));
    let raw = request.params.object("inputResponses")?.ok_or("'inputResponses' is missing".to_owned())?;
    let Some(task) = service.get(id, identity).await.map_err(to_failure)? else { return Ok(false) };
    let mut answers = input_requests::read_responses(&raw);
    answers.retain(|(key, answer)| {
        task.questions
            .iter()
            .any(|question| question.key == *key && input_requests::is_valid_response(&question.body, answer))
    });
    service.answer(id, identity, answers).await.map_err(to_failure)
}
