//! One job at work: it waits for its permits, runs through the gates, and is kept at its end.

use super::job_caller::JobCaller;
use super::running::{JobPermits, JobWorker, StopSignal};
use super::{JobGates, Jobs};
use crate::audit::OpenRecord;
use crate::gates;
use crate::gates::run::ToolPermit;
use crate::registry::Entry;
use crate::stores::{Durability, Lease, StoreError, UpdateResult};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use toolyard_protocol::{Call, Error, ErrorKind, Outcome};

/// How often a job that finds no room for its records tries again.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Everything a job's task owns.
pub struct JobExecution {
    pub lease: Lease,
    pub call: Call,
    pub entry: Arc<Entry>,
    /// Of the call that made the job; a job that is taken over begins anew.
    pub open_record: Option<Box<dyn OpenRecord>>,
    /// Taken already when the job starts at once.
    pub permits: Option<(JobPermits, Option<OwnedSemaphorePermit>)>,
    /// In the store it counts as started already.
    pub marked_running: bool,
    pub job_gates: JobGates,
}

/// How the work came to an end.
enum ExecutionEnd {
    Outcome(Box<Outcome>),
    /// Another process has the job, or will have it.
    Relinquished,
}

impl JobExecution {
    /// `awaited`: the caller is still there for the result.
    pub async fn run(self, jobs: Arc<Jobs>, worker: JobWorker, awaited: bool) {
        let (lease, timing) = (self.lease, self.entry.spec.timing);
        let end = self.execute(&jobs, &worker).await;
        let outcome = match end {
            ExecutionEnd::Relinquished => None,
            ExecutionEnd::Outcome(outcome) => jobs.persist_end(lease, timing, *outcome, awaited).await,
        };
        jobs.running.finish(lease.id, worker, outcome.map(Arc::new));
    }

    async fn execute(mut self, jobs: &Arc<Jobs>, worker: &JobWorker) -> ExecutionEnd {
        let started = self.permits.take();
        let mut stop = worker.stop.clone();
        let held = match started {
            Some(permits) => permits,
            None => {
                let acquired = tokio::select! {
                    why = stop.wait_for(|stop| *stop != StopSignal::None) => Err(why.map_or(StopSignal::ShuttingDown, |why| *why)),
                    permits = self.wait_for_permits(jobs) => Ok(permits),
                };
                match acquired {
                    Ok(Ok(permits)) => permits,
                    Ok(Err(end)) => return end,
                    Err(StopSignal::Cancelled) => return self.stopped(StopSignal::Cancelled, false),
                    // Not begun: the next process may have it.
                    Err(_) => return ExecutionEnd::Relinquished,
                }
            }
        };
        let job_caller = JobCaller::new(jobs.clone(), self.lease, worker);
        let why = tokio::select! {
            outcome = self.run_gates(held, &job_caller) => return ExecutionEnd::Outcome(Box::new(outcome)),
            why = stop.wait_for(|stop| *stop != StopSignal::None) => why.map_or(StopSignal::ShuttingDown, |why| *why),
        };
        let repeatable = self.entry.spec.annotations.is_safe_to_repeat();
        self.stopped(why, repeatable)
    }

    /// A line of its own for the tool, behind the caller's and the process's.
    async fn wait_for_permits(
        &mut self,
        jobs: &Arc<Jobs>,
    ) -> Result<(JobPermits, Option<OwnedSemaphorePermit>), ExecutionEnd> {
        let failed = |error: Error| ExecutionEnd::Outcome(Box::new(Outcome::failure(error)));
        let permits = jobs.running.acquire(&self.call.identity).await.map_err(failed)?;
        let own = self.entry.limiter.acquire().await.map_err(failed)?;
        if self.marked_running {
            return Ok((permits, own));
        }
        // What must not run twice must not look unstarted after a power cut.
        let repeatable = self.entry.spec.annotations.is_safe_to_repeat();
        let durability = if repeatable { Durability::Written } else { Durability::Synced };
        loop {
            match jobs.store.start(self.lease, jobs.now(), durability).await {
                Ok(UpdateResult::Applied) => return Ok((permits, own)),
                Ok(UpdateResult::LeaseLost) | Err(StoreError::Stopped) => {
                    return Err(ExecutionEnd::Relinquished);
                }
                // A full disk, most likely: what was promised waits for room.
                Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    /// The gates behind the admission, with the audit record's end.
    async fn run_gates(
        &mut self,
        (_permits, own): (JobPermits, Option<OwnedSemaphorePermit>),
        job_caller: &JobCaller,
    ) -> Outcome {
        let started = Instant::now();
        let JobGates { cache, redactor, .. } = &self.job_gates;
        let open_record = match self.open_record.take() {
            Some(open_record) => open_record,
            None => self.begin_record().await,
        };
        let permit = ToolPermit::Acquired(own);
        let ran = gates::cache::reuse_or_run(
            (cache, redactor),
            &self.call,
            job_caller,
            &self.entry,
            started,
            permit,
        )
        .await;
        let mut outcome = Outcome::from(ran);
        outcome.meta.call_id = Some(self.call.id);
        outcome.meta.duration = started.elapsed();
        if let Some(error) = outcome.error_mut() {
            error.correlation_id = Some(self.call.id);
        }
        gates::record::end_of_job(open_record, outcome).await
    }

    /// A job that was promised waits for room in the audit log; it does not fail for want of it.
    async fn begin_record(&self) -> Box<dyn OpenRecord> {
        let JobGates { audit, redactor, .. } = &self.job_gates;
        loop {
            let shown = gates::redact::call(redactor.as_ref(), &self.call);
            match gates::record::begin(audit, &shown, &self.entry).await {
                Ok(open_record) => return open_record,
                Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    /// Dropping the run has killed the tool and written the cancellation to the audit log.
    fn stopped(self, why: StopSignal, repeatable: bool) -> ExecutionEnd {
        match why {
            StopSignal::ShuttingDown if repeatable => ExecutionEnd::Relinquished,
            StopSignal::ShuttingDown => {
                let message =
                    "the server was stopped while the job ran; the tool's whole process tree was killed";
                ExecutionEnd::Outcome(Box::new(Outcome::failure(Error::new(ErrorKind::Cancelled, message))))
            }
            StopSignal::None | StopSignal::Cancelled => ExecutionEnd::Outcome(Box::new(Outcome::failure(
                Error::new(ErrorKind::Cancelled, "the job was cancelled"),
            ))),
        }
    }
}
