//! Gate: no call runs and no result is returned without an audit record. The store writes the records.

use crate::execute::Execution;
use crate::registry::Entry;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::{Call, Error, Outcome, ToolSpec};

pub type AuditFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The audit log as the engine needs it.
pub trait AuditLog: Send + Sync {
    /// Records that `call` is about to run. On an error the call must not run.
    fn begin<'a>(self: Arc<Self>, call: &'a Call, spec: &'a ToolSpec)
    -> AuditFuture<'a, Box<dyn OpenRecord>>;

    /// Records a call that never ran.
    fn refused<'a>(&'a self, call: &'a Call, error: &'a Error) -> AuditFuture<'a, ()>;

    /// Refuses new calls and syncs all records; the log is closed when the last open call ends.
    fn close(&self);
}

/// The record of a call that has begun. Dropping it without an end records the call as cancelled.
#[must_use = "dropping this records the call as cancelled"]
pub trait OpenRecord: Send + Sync {
    /// Records the end of a call. On an error the result must not be returned.
    fn end<'a>(self: Box<Self>, outcome: &'a Outcome) -> AuditFuture<'a, ()>;

    /// Records the end of a job. If the disk is full, the record is queued and written when there is space.
    fn end_job<'a>(self: Box<Self>, outcome: &'a Outcome) -> AuditFuture<'a, ()>;
}

/// The delay before a recovered job retries its begin record.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Before the run. On an error the call must not run; a recovered job was acknowledged, so it retries.
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

/// After the run, however it ended. A result that could not be recorded is not returned, except a job's: it
/// is stored in the job's row, and its record is written when there is space.
pub async fn end(record: Box<dyn OpenRecord>, outcome: Outcome, execution: &Execution<'_>) -> Outcome {
    let recorded = match execution {
        Execution::Job(job) if job.is_ours() => record.end_job(&outcome).await.or(Ok(())),
        _ => record.end(&outcome).await,
    };
    recorded.map_or_else(Outcome::failure, |()| outcome)
}

/// Instead of `begin` and `end`, for a call that never ran.
pub async fn refused(audit: &dyn AuditLog, call: &Call, outcome: Outcome) -> Outcome {
    let Some(error) = outcome.error() else { return outcome };
    audit.refused(call, error).await.map_or_else(Outcome::failure, |()| outcome)
}
