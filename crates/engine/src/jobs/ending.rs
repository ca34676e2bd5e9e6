//! The end of a job goes to disk before anyone is told of it.

use super::Jobs;
use super::start::end_state;
use crate::stores::{Change, Durability, Ending, Lease, StoreError};
use std::time::Duration;
use toolyard_protocol::{Outcome, Timing};

impl Jobs {
    /// Keeps the end, trying again while the disk is full. Gives back what may be told: nothing when another worker
    /// has the job by now.
    pub(super) async fn keep_end(
        &self,
        lease: Lease,
        timing: Timing,
        outcome: Outcome,
        awaited: bool,
    ) -> Option<Outcome> {
        let state = end_state(&outcome);
        let ttl = self.options.keep(timing, state);
        let kept = self.form.write(&outcome);
        // A caller who waits gets the result as soon as it survives our death; for one who comes back later it
        // must survive a power cut before it is shown as done.
        let durability = if awaited { Durability::Written } else { Durability::Synced };
        let mut pause = Duration::from_millis(50);
        loop {
            let ending = Ending { state, outcome: Some(kept.clone()), now: self.now(), ttl };
            match self.store.finish(lease, ending, durability).await {
                Ok(Change::Made) => return Some(outcome),
                Ok(Change::LeaseLost) | Err(StoreError::Stopped) => return None,
                // Nothing else can be done with a result that has no place on disk yet.
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }
}
