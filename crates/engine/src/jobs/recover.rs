//! What dead processes left behind: run again where that is safe, else said to be unknown.

use super::work::Work;
use super::{Jobs, Passage};
use crate::gates;
use crate::registry::{Entry, Registry};
use crate::stores::{Lease, Recovered};
use std::sync::Arc;
use toolyard_protocol::{Call, Edge, Error, Job, Outcome, TraceContext, Wait};

impl Jobs {
    /// Takes over every job whose worker is dead.
    pub(super) async fn take_over_the_dead(
        &self,
        registry: &Registry,
        passage: &Passage,
    ) -> Result<(), Error> {
        let mut dead = self.owner.dead();
        dead.extend(self.store.owners().await?.into_iter().filter(|id| self.owner.is_dead(*id)));
        dead.sort_unstable();
        dead.dedup();
        for owner in dead {
            loop {
                let taken = self.store.take_over(owner, self.owner.id, self.now(), 100).await?;
                if taken.is_empty() {
                    break;
                }
                for recovered in taken {
                    if let Recovered::Again(lease, job) = recovered {
                        self.run_again(lease, *job, registry, passage).await;
                    }
                }
            }
            self.owner.forget(owner);
        }
        Ok(())
    }

    /// The tool may have changed since: it is looked up and the arguments are checked anew.
    async fn run_again(&self, lease: Lease, job: Job, registry: &Registry, passage: &Passage) {
        let timing = job.timing;
        let call = Call {
            identity: job.identity,
            trace: job.trace.as_deref().and_then(TraceContext::parse),
            idempotency_key: job.key,
            wait: Wait::NotAtAll,
            ..Call::new(job.id, job.tool, job.arguments, Edge::Job)
        };
        match admit(registry, &call) {
            Ok(entry) => {
                let Some(jobs) = self.me.upgrade() else { return };
                let (desk, _) = self.live.enter(call.id);
                let passage = passage.clone();
                let work =
                    Work { lease, call, entry, begun: None, place: None, marked_running: false, passage };
                tokio::spawn(work.run(jobs, desk, false));
            }
            Err(error) => {
                self.keep_end(lease, timing, Outcome::failure(error), false).await;
            }
        }
    }
}

fn admit(registry: &Registry, call: &Call) -> Result<Arc<Entry>, Error> {
    let entry = gates::find::find(registry, &call.tool)?;
    gates::size::input(&entry.spec, &call.arguments)?;
    gates::validate::input(&entry, &call.arguments)?;
    Ok(entry)
}
