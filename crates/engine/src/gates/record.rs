//! Gate: nothing runs, and nothing is answered, without its audit record.

use crate::audit::{AuditLog, Begun};
use crate::registry::Entry;
use std::sync::Arc;
use toolyard_protocol::{Call, Error, Outcome};

/// Before the run. An error here means that the call must not run.
pub async fn begin(audit: &Arc<AuditLog>, call: &Call, entry: &Entry) -> Result<Begun, Error> {
    let begun = audit.begin_together(call, &entry.spec).await.map_err(|error| Error::from(&error))?;
    audit.settled(begun.ticket()).await.map_err(|error| Error::from(&error))?;
    Ok(begun)
}

/// After the run, on every exit. A result that could not be recorded is not handed out.
pub async fn end(audit: &AuditLog, begun: Begun, outcome: Outcome) -> Outcome {
    let ended = begun.end_together(&outcome).await;
    settle(audit, ended, outcome).await
}

/// After the run of a job. A record that finds no room is owed and written first when there is some; the result
/// itself waits for the same room, so that it is not lost for want of it.
pub async fn end_of_job(audit: &AuditLog, begun: Begun, outcome: Outcome) -> Outcome {
    if let Ok(ticket) = begun.end(&outcome) {
        // Syncing is tried again by itself.
        let _ = audit.settled(ticket).await;
    }
    outcome
}

/// A call that never ran.
pub async fn refused(audit: &AuditLog, call: &Call, error: Error) -> Outcome {
    let recorded = audit.refused(call, &error);
    settle(audit, recorded, Outcome::failure(error)).await
}

async fn settle(
    audit: &AuditLog,
    recorded: Result<crate::audit::Ticket, crate::audit::AuditError>,
    outcome: Outcome,
) -> Outcome {
    let settled = match recorded {
        Ok(ticket) => audit.settled(ticket).await,
        Err(error) => Err(error),
    };
    match settled {
        Ok(()) => outcome,
        Err(error) => Outcome::failure(Error::from(&error)),
    }
}
