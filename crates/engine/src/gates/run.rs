//! Gate: the tool runs, within its time.

use crate::registry::{Entry, Run};
use std::time::{Duration, Instant};
use toolyard_protocol::{Call, Error, ErrorKind, Outcome};

/// Runners keep the deadline themselves, because they know how to stop their work and what to say about it.
/// This long after it, one that did not is dropped, which stops it too.
const GRACE: Duration = Duration::from_secs(5);

pub async fn run(call: &Call, entry: &Entry, started: Instant) -> Result<Outcome, Error> {
    let own = started + entry.spec.limits.timeout;
    let deadline = call.deadline.map_or(own, |asked| asked.min(own));
    let run = entry.runner.run(Run { call, spec: &entry.spec, deadline });
    match tokio::time::timeout_at((deadline + GRACE).into(), run).await {
        Ok(result) => result,
        Err(_) => {
            let message = format!("'{}' did not stop at its deadline and was abandoned", entry.spec.exposed);
            Err(Error::new(ErrorKind::Timeout, message))
        }
    }
}
