//! Requests that may run long and ask questions: call a tool, get a prompt, read a resource.

use crate::mcp::Mcp;
use toolyard_engine::{RequestContext, Task};
use toolyard_protocol::{
    Call, Caller, Edge, Error, Identity, Outcome, Payload, ReadResult, RenderedPrompt, Timing, TraceContext,
    Wait,
};
use toolyard_wire::jsonrpc::{Request, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::tasks::{self, TaskView};
use toolyard_wire::mcp::{Method, Revision, meta, prompts, resources, result, tools};

/// The requested operation.
pub(in crate::mcp) enum Operation {
    Call { tool: String, arguments: Payload },
    Prompt { name: String, arguments: Payload },
    Read { uri: String },
}

/// The client that sent the request.
pub(in crate::mcp) struct Requester {
    pub identity: Identity,
    pub revision: Revision,
    pub trace: Option<TraceContext>,
    /// The client can follow a job after the response.
    pub tasks: bool,
}

/// The result of an operation.
pub(in crate::mcp) enum OperationResult {
    Outcome(Box<Outcome>),
    Task(Box<Task>),
    RenderedPrompt(RenderedPrompt),
    ReadResult(ReadResult),
    Failed(Failure),
}

impl Operation {
    /// `None` when the method is not one of these, or its service is not available.
    pub fn read(mcp: &Mcp, request: &Request) -> Option<Result<Operation, Failure>> {
        let params = &request.params;
        Some(match request.method {
            Method::CallTool => tools::read_call(params)
                .map(|call| Operation::Call { tool: call.name, arguments: call.arguments })
                .map_err(Failure::params),
            Method::GetPrompt if mcp.server_capabilities().prompts => prompts::read_get(params)
                .map(|(name, arguments)| Operation::Prompt { name, arguments })
                .map_err(Failure::params),
            Method::ReadResource if mcp.server_capabilities().resources => {
                params.required_text("uri").map(|uri| Operation::Read { uri }).map_err(Failure::params)
            }
            _ => return None,
        })
    }

    /// The name or URI and the arguments: what a repeated request must repeat.
    pub fn subject(&self) -> (&str, Option<&Payload>) {
        match self {
            Operation::Call { tool, arguments } => (tool, Some(arguments)),
            Operation::Prompt { name, arguments } => (name, Some(arguments)),
            Operation::Read { uri } => (uri, None),
        }
    }

    /// Whether repeating the operation has no more effect than running it once.
    pub fn is_safe_to_repeat(&self, mcp: &Mcp) -> bool {
        match self {
            Operation::Call { tool, .. } => {
                mcp.engine.registry.find(tool).is_some_and(|entry| entry.spec.annotations.is_safe_to_repeat())
            }
            Operation::Prompt { name, .. } => mcp.services.prompts.is_safe_to_repeat(name),
            Operation::Read { .. } => true,
        }
    }
}

impl Requester {
    pub fn new(identity: Identity, revision: Revision, tasks: bool, request: &Request) -> Requester {
        Requester { identity, revision, trace: meta::trace(&request.params), tasks }
    }
}

/// Runs the operation. Dropping the future stops the work.
pub(in crate::mcp) async fn run(
    mcp: &Mcp,
    operation: Operation,
    requester: &Requester,
    caller: &dyn Caller,
) -> OperationResult {
    let context =
        RequestContext { identity: &requester.identity, edge: Edge::Mcp, trace: requester.trace, caller };
    match operation {
        Operation::Call { tool, arguments } => call(mcp, tool, arguments, requester, caller).await,
        Operation::Prompt { name, arguments } => {
            match mcp.services.prompts.get(&name, arguments, context).await {
                Ok(filled) => OperationResult::RenderedPrompt(filled),
                Err(error) => OperationResult::failed(&error, requester, None),
            }
        }
        Operation::Read { uri } => match mcp.services.resources.read(&uri, context).await {
            Ok(reading) => OperationResult::ReadResult(reading),
            Err(error) => OperationResult::failed(&error, requester, Some(&uri)),
        },
    }
}

async fn call(
    mcp: &Mcp,
    tool: String,
    arguments: Payload,
    requester: &Requester,
    caller: &dyn Caller,
) -> OperationResult {
    let entry = mcp.engine.registry.find(&tool);
    let timing = entry.as_ref().map_or(Timing::Sync, |entry| entry.spec.timing);
    if matches!(timing, Timing::AsyncLong) && requester.revision.is_stateless() && !requester.tasks {
        return OperationResult::Failed(Failure::missing_capability(tasks::REQUIRED));
    }
    let wait = match timing {
        Timing::Sync | Timing::FireAndForget => Wait::AsDeclared,
        // The tool asks its questions first, during this request.
        _ if requester.tasks && entry.is_some_and(|entry| entry.spec.behavior.attached) => {
            Wait::UntilDetached
        }
        // A client that can follow a job gets its id at once; others wait for the outcome, with progress.
        _ if requester.tasks => Wait::NoWait,
        _ => Wait::UntilDone,
    };
    let (identity, trace) = (requester.identity.clone(), requester.trace);
    let call = Call { identity, trace, wait, ..Call::new(mcp.engine.call_id(), tool, arguments, Edge::Mcp) };
    let outcome = mcp.engine.run(call, caller).await;
    match outcome.meta.job {
        Some((job, _)) if requester.tasks => match mcp.services.tasks.get(job, &requester.identity).await {
            Ok(Some(task)) => OperationResult::Task(Box::new(task)),
            // Already finished and removed: this is its outcome.
            Ok(None) => OperationResult::Outcome(Box::new(outcome)),
            Err(error) => OperationResult::failed(&error, requester, None),
        },
        _ => OperationResult::Outcome(Box::new(outcome)),
    }
}

impl OperationResult {
    fn failed(error: &Error, requester: &Requester, uri: Option<&str>) -> OperationResult {
        OperationResult::Failed(Failure::of(error, requester.revision, uri))
    }

    /// About the size of the response.
    pub fn response_size(&self) -> usize {
        match self {
            OperationResult::Outcome(outcome) => {
                outcome.data().map_or(0, Payload::len) * 2 + outcome.content().map_or(0, Payload::len)
            }
            OperationResult::ReadResult(reading) => reading.parts.iter().map(|part| part.body.len()).sum(),
            OperationResult::RenderedPrompt(filled) => filled.messages.len(),
            OperationResult::Task(_) | OperationResult::Failed(_) => 0,
        }
    }

    pub fn is_failure(&self) -> bool {
        match self {
            OperationResult::Outcome(outcome) => outcome.error().is_some(),
            OperationResult::Failed(_) => true,
            _ => false,
        }
    }

    /// The response, and its HTTP status for stateless clients.
    pub fn write(&self, id: &RequestId, revision: Revision) -> (u16, Vec<u8>) {
        let body = match self {
            OperationResult::Outcome(outcome) => result::write_outcome(id, outcome, revision),
            OperationResult::Task(task) => tasks::write_created(id, revision, &task_view(task)),
            OperationResult::RenderedPrompt(filled) => prompts::write_rendered(id, revision, filled),
            OperationResult::ReadResult(reading) => resources::write_read_result(id, revision, reading),
            OperationResult::Failed(failure) => return (failure.http, failure.write(Some(id))),
        };
        (200, body)
    }
}

pub(in crate::mcp) fn task_view(task: &Task) -> TaskView<'_> {
    TaskView {
        job: &task.job,
        questions: &task.questions,
        outcome: task.outcome.as_ref(),
        ttl: task.ttl,
        poll: task.poll_interval,
    }
}
