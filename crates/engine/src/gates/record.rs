//! Gate: nothing runs, and nothing is answered, without its audit record.

use crate::audit::{AuditLog, OpenRecord};
use crate::registry::Entry;
use std::sync::Arc;
use toolyard_protocol::{Call, Error, Outcome};

/// Before the run. An error here means that the call must not run.
pub async fn begin(
    audit: &Arc<dyn AuditLog>,
    call: &Call,
    entry: &Entry,
) -> Result<Box<dyn OpenRecord>, Error> {
    audit.clone().begin(call, &entry.spec).await
}

/// After the run, on every exit. A result that could not be recorded is not handed out.
pub async fn end(open_record: Box<dyn OpenRecord>, outcome: Outcome) -> Outcome {
    match open_record.end(&outcome).await {
        Ok(()) => outcome,
        Err(error) => Outcome::failure(error),
    }
}

/// After the run of a job. A record that finds no room is owed and written first when there is some; the result
/// itself waits for the same room, so that it is not lost for want of it.
pub async fn end_of_job(open_record: Box<dyn OpenRecord>, outcome: Outcome) -> Outcome {
    let _ = open_record.end_job(&outcome).await;
    outcome
}

/// A call that never ran.
pub async fn refused(audit: &dyn AuditLog, call: &Call, error: Error) -> Outcome {
    let recorded = audit.refused(call, &error).await;
    Outcome::failure(recorded.err().unwrap_or(error))
}
