//! Gate: no call runs and no result is returned without an audit record. The store writes the records; the
//! end of every call is also an event of the log.

use crate::execute::Execution;
use crate::registry::Entry;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_protocol::{Call, Error, ErrorKind, Outcome, ToolSpec};
use tracing::{Level, debug, enabled, error, info, warn};

/// Target of the log events about calls.
const TARGET: &str = "toolyard::call";

pub type AuditFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The audit log as the engine needs it.
pub trait AuditLog: Send + Sync {
    /// Records that `call` is about to run. On an error the call must not run.
    fn begin<'a>(self: Arc<Self>, call: &'a Call, spec: &'a ToolSpec)
    -> AuditFuture<'a, Box<dyn OpenRecord>>;

    /// Records a call that never ran.
    fn refused<'a>(&'a self, call: &'a Call, error: &'a Error) -> AuditFuture<'a, ()>;

    /// Removes records that are older than they must be kept. Blocks the thread.
    fn maintain(&self) {}

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

/// A call that has begun. Dropping it without an end means that the call was cancelled.
pub struct BegunCall<'a> {
    record: Option<Box<dyn OpenRecord>>,
    call: &'a Call,
    /// Absent when calls are not logged.
    began: Option<Instant>,
}

/// Before the run. On an error the call must not run; a recovered job was acknowledged, so it retries.
pub async fn begin<'a>(
    audit: &Arc<dyn AuditLog>,
    call: &'a Call,
    redacted: &Call,
    entry: &Entry,
    execution: &Execution<'_>,
) -> Result<BegunCall<'a>, Error> {
    loop {
        match audit.clone().begin(redacted, &entry.spec).await {
            Err(error) => match execution {
                Execution::Job(job) if job.is_recovered() => tokio::select! {
                    () = tokio::time::sleep(RETRY_DELAY) => {}
                    () = job.stop_requested() => return Err(error),
                },
                _ => return Err(error),
            },
            Ok(record) => {
                let began = enabled!(target: TARGET, Level::INFO).then(Instant::now);
                return Ok(BegunCall { record: Some(record), call, began });
            }
        }
    }
}

/// After the run, however it ended. A result that could not be recorded is not returned, except a job's: it
/// is stored in the job's row, and its record is written when there is space.
pub async fn end(mut begun: BegunCall<'_>, outcome: Outcome, execution: &Execution<'_>) -> Outcome {
    let Some(record) = begun.record.take() else { return outcome };
    let recorded = match execution {
        Execution::Job(job) if job.is_ours() => record.end_job(&outcome).await.or(Ok(())),
        _ => record.end(&outcome).await,
    };
    let outcome = recorded.map_or_else(Outcome::failure, |()| outcome);
    log_end(begun.call, &outcome);
    outcome
}

/// Instead of `begin` and `end`, for a call that never ran.
pub async fn refused(audit: &dyn AuditLog, call: &Call, outcome: Outcome) -> Outcome {
    let Some(error) = outcome.error() else { return outcome };
    let outcome = audit.refused(call, error).await.map_or_else(Outcome::failure, |()| outcome);
    if let Some(error) = outcome.error() {
        let (caller, edge) = (call.identity.as_str(), call.edge.as_str());
        let (kind, tool, message) = (error.kind.row().name, shorten(&call.tool), shorten(&error.message));
        warn!(target: TARGET, tool, caller, edge, refused = kind, error = message, call = %call.id);
        log_details(call, error);
    }
    outcome
}

fn log_end(call: &Call, outcome: &Outcome) {
    let is_fault = outcome
        .error()
        .is_some_and(|error| matches!(error.kind, ErrorKind::Internal | ErrorKind::AuditUnavailable));
    if !is_fault && !enabled!(target: TARGET, Level::INFO) {
        return;
    }
    let (tool, caller, edge) = (call.tool.as_str(), call.identity.as_str(), call.edge.as_str());
    let (ms, cached) = (outcome.meta.duration.as_micros() as f64 / 1000.0, outcome.meta.cached);
    match outcome.error() {
        None => {
            let outcome = outcome.status().as_str();
            info!(target: TARGET, tool, caller, edge, outcome, ms, cached, call = %call.id);
        }
        Some(error) => {
            let (outcome, message) = (error.kind.row().name, shorten(&error.message));
            if is_fault {
                error!(target: TARGET, tool, caller, edge, outcome, ms, error = message, call = %call.id);
            } else {
                info!(target: TARGET, tool, caller, edge, outcome, ms, error = message, call = %call.id);
            }
            log_details(call, error);
        }
    }
}

/// What the line of a failed call has no room for.
fn log_details(call: &Call, error: &Error) {
    if !enabled!(target: TARGET, Level::DEBUG) {
        return;
    }
    let details = &error.details;
    let violations = details.violations.iter().map(|violation| {
        let gap = if violation.pointer.is_empty() { "" } else { ": " };
        format!("{}{gap}{}", violation.pointer, violation.message)
    });
    let violations = violations.collect::<Vec<_>>().join("; ");
    debug!(
        target: TARGET,
        hint = error.hint.as_deref().map(shorten),
        exit = details.exit.as_deref(),
        stderr = details.stderr.as_deref().map(shorten),
        violations = (!violations.is_empty()).then_some(shorten(&violations)),
        call = %call.id,
    );
}

/// Names and messages may come from a client: a line of the log is bounded.
fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(1024)]
}

impl Drop for BegunCall<'_> {
    fn drop(&mut self) {
        if let (Some(_), Some(began)) = (&self.record, self.began) {
            let (tool, caller, edge) =
                (&*self.call.tool, self.call.identity.as_str(), self.call.edge.as_str());
            let ms = began.elapsed().as_micros() as f64 / 1000.0;
            info!(target: TARGET, tool, caller, edge, outcome = "cancelled", ms, call = %self.call.id);
        }
    }
}
