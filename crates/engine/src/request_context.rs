//! On whose behalf something that is no tool call is done: who asks, from where, and who can be asked back.

use std::future::Future;
use std::pin::Pin;
use toolyard_protocol::{Call, Caller, Edge, Error, Id, Identity, Payload, TraceContext};

/// What a resource or prompt may yield. Dropping it stops the work.
pub type RequestFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Resources and prompts may be made by tools; what such a call needs is here.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    pub identity: &'a Identity,
    pub edge: Edge,
    pub trace: Option<TraceContext>,
    pub caller: &'a dyn Caller,
}

impl RequestContext<'_> {
    /// The call of the tool that makes the resource or prompt.
    pub fn call(&self, id: Id, tool: impl Into<String>, arguments: Payload) -> Call {
        Call {
            identity: self.identity.clone(),
            trace: self.trace,
            ..Call::new(id, tool, arguments, self.edge)
        }
    }
}
