//! Requests that may take long and may ask back: a tool call, a prompt, a resource.

use super::Mcp;
use toolyard_engine::{Behalf, Task};
use toolyard_protocol::{
    Call, Caller, Edge, Error, Filled, Identity, Outcome, Payload, Reading, Timing, TraceContext, Wait,
};
use toolyard_wire::jsonrpc::{Request, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::tasks::{self, TaskView};
use toolyard_wire::mcp::{Revision, meta, prompts, resources, result, tools};

/// What is asked for.
pub(super) enum Talk {
    Call { tool: String, arguments: Payload },
    Prompt { name: String, arguments: Payload },
    Read { uri: String },
}

/// Who asks.
pub(super) struct Who {
    pub identity: Identity,
    pub revision: Revision,
    pub trace: Option<TraceContext>,
    /// The client can follow a job after the answer.
    pub tasks: bool,
}

/// What comes of it.
pub(super) enum Said {
    Outcome(Box<Outcome>),
    Task(Box<Task>),
    Filled(Filled),
    Reading(Reading),
    Failed(Failure),
}

impl Talk {
    /// `None` when the method is none of these, or there is nothing it could be about.
    pub fn read(mcp: &Mcp, request: &Request) -> Option<Result<Talk, Failure>> {
        let (offer, params) = (mcp.offer(), &request.params);
        Some(match request.method.as_str() {
            "tools/call" => tools::read_call(params)
                .map(|call| Talk::Call { tool: call.name, arguments: call.arguments })
                .map_err(Failure::params),
            "prompts/get" if offer.prompts => prompts::read_get(params)
                .map(|(name, arguments)| Talk::Prompt { name, arguments })
                .map_err(Failure::params),
            "resources/read" if offer.resources => {
                params.need("uri").map(|uri| Talk::Read { uri }).map_err(Failure::params)
            }
            _ => return None,
        })
    }

    /// The name of the thing and its arguments: what a repeated request must repeat.
    pub fn subject(&self) -> (&str, Option<&Payload>) {
        match self {
            Talk::Call { tool, arguments } => (tool, Some(arguments)),
            Talk::Prompt { name, arguments } => (name, Some(arguments)),
            Talk::Read { uri } => (uri, None),
        }
    }

    /// Whether doing it a second time does no more harm than doing it once.
    pub fn is_safe_to_repeat(&self, mcp: &Mcp) -> bool {
        match self {
            Talk::Call { tool, .. } => {
                mcp.engine.registry.find(tool).is_some_and(|entry| entry.spec.annotations.is_safe_to_repeat())
            }
            Talk::Prompt { name, .. } => mcp.services.prompts.is_safe_to_repeat(name),
            Talk::Read { .. } => true,
        }
    }
}

impl Who {
    pub fn new(identity: Identity, revision: Revision, tasks: bool, request: &Request) -> Who {
        Who { identity, revision, trace: meta::trace(&request.params), tasks }
    }
}

/// Does it. Dropping the future stops the work.
pub(super) async fn run(mcp: &Mcp, talk: Talk, who: &Who, caller: &dyn Caller) -> Said {
    let behalf = Behalf { identity: &who.identity, edge: Edge::Mcp, trace: who.trace, caller };
    match talk {
        Talk::Call { tool, arguments } => call(mcp, tool, arguments, who, caller).await,
        Talk::Prompt { name, arguments } => match mcp.services.prompts.get(&name, arguments, behalf).await {
            Ok(filled) => Said::Filled(filled),
            Err(error) => Said::failed(&error, who, None),
        },
        Talk::Read { uri } => match mcp.services.resources.read(&uri, behalf).await {
            Ok(reading) => Said::Reading(reading),
            Err(error) => Said::failed(&error, who, Some(&uri)),
        },
    }
}

async fn call(mcp: &Mcp, tool: String, arguments: Payload, who: &Who, caller: &dyn Caller) -> Said {
    let entry = mcp.engine.registry.find(&tool);
    let timing = entry.as_ref().map_or(Timing::Sync, |entry| entry.spec.timing);
    if timing == Timing::AsyncLong && who.revision.is_stateless() && !who.tasks {
        return Said::Failed(Failure::missing_capability(tasks::REQUIRED));
    }
    let wait = match timing {
        Timing::Sync | Timing::FireAndForget => Wait::AsDeclared,
        // Questions come first, in this very request.
        _ if who.tasks && entry.is_some_and(|entry| entry.spec.conduct.attached) => Wait::UntilDetached,
        // Who can follow a job gets its id at once; who cannot waits for the end, with progress.
        _ if who.tasks => Wait::NotAtAll,
        _ => Wait::ToTheEnd,
    };
    let (identity, trace) = (who.identity.clone(), who.trace);
    let call = Call { identity, trace, wait, ..Call::new(mcp.engine.call_id(), tool, arguments, Edge::Mcp) };
    let outcome = mcp.engine.run(call, caller).await;
    match outcome.meta.job {
        Some((job, _)) if who.tasks => match mcp.services.tasks.get(job, &who.identity).await {
            Ok(Some(task)) => Said::Task(Box::new(task)),
            // Finished and gone already: then this is its end.
            Ok(None) => Said::Outcome(Box::new(outcome)),
            Err(error) => Said::failed(&error, who, None),
        },
        _ => Said::Outcome(Box::new(outcome)),
    }
}

impl Said {
    fn failed(error: &Error, who: &Who, uri: Option<&str>) -> Said {
        Said::Failed(Failure::of(error, who.revision, uri))
    }

    pub fn is_failure(&self) -> bool {
        match self {
            Said::Outcome(outcome) => outcome.error().is_some(),
            Said::Failed(_) => true,
            _ => false,
        }
    }

    /// The response, and its HTTP status for stateless clients.
    pub fn write(&self, id: &RequestId, revision: Revision) -> (u16, Vec<u8>) {
        let body = match self {
            Said::Outcome(outcome) => result::write_outcome(id, outcome, revision),
            Said::Task(task) => tasks::write_created(id, revision, &view(task)),
            Said::Filled(filled) => prompts::write_filled(id, revision, filled),
            Said::Reading(reading) => resources::write_reading(id, revision, reading),
            Said::Failed(failure) => return (failure.http, failure.write(Some(id))),
        };
        (200, body)
    }
}

pub(super) fn view(task: &Task) -> TaskView<'_> {
    TaskView {
        job: &task.job,
        questions: &task.questions,
        outcome: task.outcome.as_ref(),
        ttl: task.ttl,
        poll: task.poll,
    }
}
