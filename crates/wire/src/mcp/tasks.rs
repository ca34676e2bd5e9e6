//! The tasks extension: a call that continues after its response is a task, which clients poll by id.

use super::notifications::tag;
use super::{Revision, input_requests, result};
use crate::jsonrpc::{self, Params, RequestId};
use std::borrow::Cow;
use std::time::Duration;
use toolyard_formats::json::Object;
use toolyard_protocol::{Error, ErrorKind, Id, InputRequest, Job, JobState, Outcome};

/// A job as a client sees it.
pub struct TaskView<'a> {
    pub job: &'a Job,
    pub questions: &'a [InputRequest],
    pub outcome: Option<&'a Outcome>,
    /// How long a finished task is retained; `None` means without limit.
    pub ttl: Option<Duration>,
    pub poll: Duration,
}

/// The capability that a client must declare.
pub const REQUIRED: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// The id in `params.taskId`; `None` when it is not a valid id.
pub fn read_id(params: &Params) -> Result<Option<Id>, String> {
    params.required_text("taskId").map(|text| Id::parse(&text))
}

/// The response to a call that continues as a job.
pub fn write_created(id: &RequestId, revision: Revision, task: &TaskView<'_>) -> Vec<u8> {
    jsonrpc::result(id, 400, |out| {
        let mut object = result::typed(out, revision, "task");
        push_task(&mut object, task);
        object.end();
    })
}

/// The response to `tasks/get`.
pub fn write_task(id: &RequestId, revision: Revision, task: &TaskView<'_>) -> Vec<u8> {
    jsonrpc::result(id, 600, |out| {
        let mut object = result::complete(out, revision);
        push_task(&mut object, task);
        push_end(&mut object, task, revision);
        object.end();
    })
}

/// `notifications/tasks` for a subscriber to the task.
pub fn notification(subscription: &RequestId, revision: Revision, task: &TaskView<'_>) -> Vec<u8> {
    jsonrpc::notification("notifications/tasks", |params| {
        tag(params, Some(subscription));
        push_task(params, task);
        push_end(params, task, revision);
    })
}

fn push_task(object: &mut Object<'_>, task: &TaskView<'_>) {
    let job = task.job;
    object.text("taskId", job.id.text().as_str()).text("status", status(task));
    if let Some(message) = status_message(task) {
        object.text("statusMessage", &message);
    }
    let updated = job.finished.or(job.started).unwrap_or(job.created);
    object.text("createdAt", job.created.text().as_str()).text("lastUpdatedAt", updated.text().as_str());
    match task.ttl {
        Some(ttl) => object.number("ttlMs", millis(ttl)),
        None => object.raw("ttlMs", b"null"),
    };
    object.number("pollIntervalMs", millis(task.poll));
}

/// A task whose tool failed is `completed`; `failed` corresponds to a JSON-RPC error.
fn status(task: &TaskView<'_>) -> &'static str {
    match task.job.state {
        JobState::Pending | JobState::Running => "working",
        JobState::InputRequired => "input_required",
        JobState::Cancelled => "cancelled",
        JobState::Unknown => "failed",
        JobState::Complete | JobState::Failed => match task.outcome {
            Some(outcome) if result::protocol_error(outcome).is_none() => "completed",
            _ => "failed",
        },
    }
}

fn status_message(task: &TaskView<'_>) -> Option<String> {
    if task.job.state == JobState::Unknown {
        return Some("the job was interrupted and is not safe to repeat".to_owned());
    }
    let progress = task.job.progress.as_ref()?;
    Some(match (&progress.message, progress.total.filter(|total| *total >= progress.done)) {
        (Some(message), _) => message.clone(),
        (None, Some(total)) => format!("{} of {total}", progress.done),
        (None, None) => progress.done.to_string(),
    })
}

/// Writes the questions, the result or the error, depending on the status.
fn push_end(object: &mut Object<'_>, task: &TaskView<'_>, revision: Revision) {
    match status(task) {
        "input_required" => {
            input_requests::push_requests(object.member("inputRequests"), task.questions, revision)
        }
        "completed" => {
            if let Some(outcome) = task.outcome {
                result::push_outcome(object.member("result"), outcome, revision);
            }
        }
        "failed" => {
            let unknown = Error::new(ErrorKind::Internal, "the job was interrupted at an unknown point");
            let found = task.outcome.and_then(result::protocol_error);
            let error =
                found.unwrap_or_else(|| Cow::Owned(result::rpc_error(&unknown, jsonrpc::INTERNAL_ERROR)));
            jsonrpc::push_error(object.member("error"), &error);
        }
        _ => {}
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
