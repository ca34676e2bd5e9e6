//! Gate: nothing runs, and nothing is answered, without its audit record. Where records go is the store's business.

use crate::execute::Execution;
use crate::registry::Entry;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
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

/// How often a recovered job tries again to record its begin.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Before the run. An error means that the call must not run; a job that was acknowledged before waits for room.
pub async fn begin(
    audit: &Arc<dyn AuditLog>,
    call: &Call,
    entry: &Entry,
    execution: &Execution<'_>,
) -> Result<Box<dyn OpenRecord>, Error> {
    loop {
        match audit.clone().begin(call, &entry.spec).await {
            Err(_) if execution.is_recovered() => tokio::time::sleep(RETRY_DELAY).await,
            begun => return begun,
        }
    }
}

/// After the run, on every exit. A result that could not be recorded is not handed out, except that of a job: it waits
/// in its row, and its record is written as soon as there is room.
pub async fn end(record: Box<dyn OpenRecord>, outcome: Outcome, execution: &Execution<'_>) -> Outcome {
    let recorded = match execution {
        Execution::Job(job) if job.is_ours() => record.end_job(&outcome).await,
        _ => record.end(&outcome).await,
    };
    recorded.map_or_else(Outcome::failure, |()| outcome)
}

/// Instead of both, for a call that never ran.
pub async fn refused(audit: &dyn AuditLog, call: &Call, outcome: Outcome) -> Outcome {
    let Some(error) = outcome.error() else { return outcome };
    audit.refused(call, error).await.map_or_else(Outcome::failure, |()| outcome)
}
