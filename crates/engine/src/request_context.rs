//! The context of a request that is not a tool call: identity, edge, trace, and the caller for questions.

use std::future::Future;
use std::pin::Pin;
use toolyard_protocol::{Call, Caller, Edge, Error, Id, Identity, Payload, TraceContext};

/// The result of a resource, prompt or task request. Dropping it stops the work.
pub type RequestFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Everything that a tool call made for the request needs: tools may produce resources and prompts.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    pub identity: &'a Identity,
    pub edge: Edge,
    pub trace: Option<TraceContext>,
    pub caller: &'a dyn Caller,
}

impl RequestContext<'_> {
    /// A call of the tool that produces the resource or prompt.
    pub fn call(&self, id: Id, tool: impl Into<String>, arguments: Payload) -> Call {
        Call {
            identity: self.identity.clone(),
            trace: self.trace,
            ..Call::new(id, tool, arguments, self.edge)
        }
    }
}
