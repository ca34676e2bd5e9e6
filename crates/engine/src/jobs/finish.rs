//! The end of a job goes to disk before anyone is told of it.

use super::Jobs;
use super::start::end_state;
use crate::stores::{Durability, JobEnd, Lease, StoreError, UpdateResult};
use std::time::Duration;
use toolyard_protocol::{Outcome, Timing};

impl Jobs {
    /// Keeps the end, trying again while the disk is full. Gives back what may be told: nothing when another worker
    /// has the job by now.
    pub(super) async fn persist_end(
        &self,
        lease: Lease,
        timing: Timing,
        outcome: Outcome,
        awaited: bool,
    ) -> Option<Outcome> {
        let state = end_state(&outcome);
        let ttl = self.options.retention(timing, state);
        let encoded = self.codec.write(&outcome);
        // A caller who waits gets the result as soon as it survives our death; for one who comes back later it
        // must survive a power cut before it is shown as done.
        let durability = if awaited { Durability::Written } else { Durability::Synced };
        let mut pause = Duration::from_millis(50);
        loop {
            let ending = JobEnd { state, outcome: Some(encoded.clone()), now: self.now(), ttl };
            match self.store.finish(lease, ending, durability).await {
                Ok(UpdateResult::Applied) => return Some(outcome),
                Ok(UpdateResult::LeaseLost) | Err(StoreError::Stopped) => return None,
                // Nothing else can be done with a result that has no place on disk yet.
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }
}
