//! Recovers the jobs of dead processes: repeatable ones run again, others end in the state `Unknown`.

use super::Jobs;
use super::run::{JobRun, Origin};
use super::running::JobWorker;
use crate::execute::Engine;
use crate::stores::{Lease, Recovered};
use toolyard_protocol::{Call, Edge, Error, Job, TraceContext};

impl Jobs {
    /// Takes over every job whose worker is dead.
    pub(super) async fn recover_orphaned_jobs(&self, engine: &Engine) -> Result<(), Error> {
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
                    if let Recovered::Requeued(lease, job) = recovered {
                        self.run_again(lease, *job, engine);
                    }
                }
            }
            self.owner.forget(owner);
        }
        Ok(())
    }

    /// The tool may have changed since, so the job passes every gate again except the rate limit.
    fn run_again(&self, lease: Lease, job: Job, engine: &Engine) {
        let Some(jobs) = self.weak_self.upgrade() else { return };
        let call = Call {
            identity: job.identity,
            trace: job.trace.as_deref().and_then(TraceContext::parse),
            idempotency_key: job.key,
            ..Call::new(job.id, job.tool, job.arguments, Edge::Job)
        };
        let worker = JobWorker::register(jobs, call.id);
        let run = JobRun::new(worker, job.timing, Origin::Recovered(job.deaths), Some(lease));
        tokio::spawn(run.run(engine.clone(), call));
    }
}
