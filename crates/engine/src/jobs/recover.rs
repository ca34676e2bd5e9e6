//! What dead processes left behind: run again where that is safe, else said to be unknown.

use super::execution::JobExecution;
use super::{JobGates, Jobs};
use crate::gates;
use crate::registry::{Entry, Registry};
use crate::stores::{Lease, Recovered};
use std::sync::Arc;
use toolyard_protocol::{Call, Edge, Error, Job, Outcome, TraceContext, Wait};

impl Jobs {
    /// Takes over every job whose worker is dead.
    pub(super) async fn recover_orphaned_jobs(
        &self,
        registry: &Registry,
        job_gates: &JobGates,
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
                    if let Recovered::Requeued(lease, job) = recovered {
                        self.run_again(lease, *job, registry, job_gates).await;
                    }
                }
            }
            self.owner.forget(owner);
        }
        Ok(())
    }

    /// The tool may have changed since: it is looked up and the arguments are checked anew.
    async fn run_again(&self, lease: Lease, job: Job, registry: &Registry, job_gates: &JobGates) {
        let timing = job.timing;
        let call = Call {
            identity: job.identity,
            trace: job.trace.as_deref().and_then(TraceContext::parse),
            idempotency_key: job.key,
            wait: Wait::NoWait,
            ..Call::new(job.id, job.tool, job.arguments, Edge::Job)
        };
        match admit(registry, &call) {
            Ok(entry) => {
                let Some(jobs) = self.weak_self.upgrade() else { return };
                let (worker, _) = self.running.register(call.id);
                let job_gates = job_gates.clone();
                let execution = JobExecution {
                    lease,
                    call,
                    entry,
                    open_record: None,
                    permits: None,
                    marked_running: false,
                    job_gates,
                };
                tokio::spawn(execution.run(jobs, worker, false));
            }
            Err(error) => {
                self.persist_end(lease, timing, Outcome::failure(error), false).await;
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
