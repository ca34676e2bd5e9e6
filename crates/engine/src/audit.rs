//! The audit log behind traits: where its records go is the store's business.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use toolyard_protocol::{Call, Error, Outcome, ToolSpec};

pub type AuditFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The audit log as the engine needs it: nothing runs and nothing is answered without its record.
pub trait AuditLog: Send + Sync {
    /// Records that `call` is about to run; without this record nothing may run.
    fn begin<'a>(self: Arc<Self>, call: &'a Call, spec: &'a ToolSpec)
    -> AuditFuture<'a, Box<dyn OpenRecord>>;

    /// Records a call that never ran.
    fn refused<'a>(&'a self, call: &'a Call, error: &'a Error) -> AuditFuture<'a, ()>;

    /// Refuses new calls and makes what was recorded durable; the log ends once the last open call has ended.
    fn close(&self);
}

/// The record of a call that has begun. Dropping it unended records a cancelled call.
#[must_use = "dropping this records the call as cancelled"]
pub trait OpenRecord: Send + Sync {
    /// Records the end of a call; an error means that the result must not be handed out.
    fn end<'a>(self: Box<Self>, outcome: &'a Outcome) -> AuditFuture<'a, ()>;

    /// Records the end of a job. A record for which there is no room stays owed and is written as soon as there is room.
    fn end_job<'a>(self: Box<Self>, outcome: &'a Outcome) -> AuditFuture<'a, ()>;
}
