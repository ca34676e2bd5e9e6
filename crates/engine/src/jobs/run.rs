//! The task of one job, from its first gate to the end of its row.

use super::Jobs;
use super::job_caller::JobCaller;
use super::running::{JobPermits, JobWorker, StopSignal};
use super::start::end_state;
use crate::execute::{Engine, Execution};
use crate::gates::concurrency::ToolPermit;
use crate::registry::Entry;
use crate::stores::{Created, Durability, JobEnd, Lease, StoreError, UpdateResult};
use futures_util::FutureExt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use toolyard_protocol::{Call, Error, ErrorKind, Job, JobState, Outcome, Redactor, Timing};

/// The retry delay when the store fails, for example because the disk is full.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The state of a job's task. Dropping the task leaves the row to the next process.
pub struct JobRun {
    jobs: Arc<Jobs>,
    worker: JobWorker,
    origin: Origin,
    timing: Timing,
    /// The lease of the row, once this job owns it.
    lease: Option<Lease>,
    permits: Option<JobPermits>,
    is_repeatable: bool,
    /// The tool may have run.
    is_started: bool,
    stopped: Option<StopSignal>,
    /// Another process has the row.
    lease_lost: bool,
}

pub enum Origin {
    /// A call of this process. The channel tells the caller that the job was created.
    Submitted { accepted: Option<oneshot::Sender<Accepted>>, awaited: bool },
    /// The row of a dead process.
    Recovered,
}

/// How a submitted call was accepted.
pub enum Accepted {
    Created,
    /// A job with the same key exists: its result answers this call too.
    Existing(Box<Job>, oneshot::Sender<Outcome>),
}

/// How the list of gates continues.
pub enum Started {
    Running(ToolPermit, JobCaller),
    /// The result of another job, which has the same key.
    Joined(Box<Outcome>),
}

impl JobRun {
    /// `lease` is that of a recovered row.
    pub fn new(
        jobs: Arc<Jobs>,
        worker: JobWorker,
        timing: Timing,
        origin: Origin,
        lease: Option<Lease>,
    ) -> JobRun {
        JobRun {
            jobs,
            worker,
            origin,
            timing,
            lease,
            permits: None,
            is_repeatable: false,
            is_started: false,
            stopped: None,
            lease_lost: false,
        }
    }

    /// The body of the task.
    pub async fn run(mut self, engine: Engine, call: Call) {
        let outcome = engine.execute(&call, Execution::Job(&mut self)).await;
        // A full disk may delay the end of the row; other jobs need not wait for it.
        self.permits = None;
        let outcome = self.finish(outcome).await;
        self.jobs.running.finish(call.id, self.worker, outcome.map(Arc::new));
    }

    pub fn is_recovered(&self) -> bool {
        matches!(self.origin, Origin::Recovered)
    }

    /// Whether the job owns a row.
    pub fn is_ours(&self) -> bool {
        self.lease.is_some()
    }

    /// Creates the row, unless it exists, and waits for the permits to run.
    pub async fn start(
        &mut self,
        call: &Call,
        entry: &Arc<Entry>,
        redactor: &dyn Redactor,
    ) -> Result<Started, Error> {
        self.check_stop()?;
        self.is_repeatable = entry.spec.annotations.is_safe_to_repeat();
        let jobs = self.jobs.clone();
        let mut acquired = None;
        let mut is_marked_running = false;
        let lease = match self.lease {
            Some(lease) => lease,
            None => {
                acquired = jobs.running.try_acquire(&call.identity).zip(entry.limiter.try_acquire());
                let new = jobs.new_job(call, &entry.spec, acquired.is_some(), redactor);
                is_marked_running = new.state == JobState::Running;
                match jobs.store.create(new).await? {
                    Created::New(lease) => lease,
                    Created::Existing(job) => return self.join(job).await,
                }
            }
        };
        self.lease = Some(lease);
        self.accept(Accepted::Created);
        let (permits, tool_permit) = match acquired {
            Some(acquired) => acquired,
            None => self.wait_for_permits(lease, call, entry, is_marked_running).await?,
        };
        (self.permits, self.is_started) = (Some(permits), true);
        Ok(Started::Running(ToolPermit::Acquired(tool_permit), JobCaller::new(jobs, lease, &self.worker)))
    }

    /// Waits for `run` or the stop signal. Dropping the run kills the tool's process tree.
    pub async fn until_stopped<T>(
        &mut self,
        run: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.check_stop()?;
        let mut stop = self.worker.stop.clone();
        let signal = tokio::select! {
            // A result that is there counts, whatever the signal says.
            biased;
            result = run => return result,
            signal = stop.wait_for(|signal| *signal != StopSignal::None) => signal.map(|signal| *signal),
        };
        Err(self.stop(signal.unwrap_or(StopSignal::ShuttingDown)))
    }

    /// Nothing new begins after a stop signal.
    fn check_stop(&mut self) -> Result<(), Error> {
        let signal = *self.worker.stop.borrow();
        if signal == StopSignal::None { Ok(()) } else { Err(self.stop(signal)) }
    }

    fn stop(&mut self, signal: StopSignal) -> Error {
        self.stopped = Some(signal);
        let message = match signal {
            StopSignal::ShuttingDown => {
                "the server was stopped while the job ran; the tool's whole process tree was killed"
            }
            StopSignal::None | StopSignal::Cancelled => "the job was cancelled",
        };
        Error::new(ErrorKind::Cancelled, message)
    }

    /// Ignores a caller that has disconnected.
    fn accept(&mut self, accepted: Accepted) {
        if let Origin::Submitted { accepted: sender, .. } = &mut self.origin
            && let Some(sender) = sender.take()
        {
            let _ = sender.send(accepted);
        }
    }

    async fn join(&mut self, job: Box<Job>) -> Result<Started, Error> {
        let (reply, outcome) = oneshot::channel();
        self.accept(Accepted::Existing(job, reply));
        let gone = |_| Error::new(ErrorKind::Cancelled, "the caller disconnected before the job ended");
        outcome.await.map(|outcome| Started::Joined(Box::new(outcome))).map_err(gone)
    }

    /// First the permits of the caller and the process, then the tool's.
    async fn wait_for_permits(
        &mut self,
        lease: Lease,
        call: &Call,
        entry: &Arc<Entry>,
        is_marked_running: bool,
    ) -> Result<(JobPermits, Option<OwnedSemaphorePermit>), Error> {
        let jobs = self.jobs.clone();
        let waiting =
            async { Ok((jobs.running.acquire(&call.identity).await?, entry.limiter.acquire().await?)) };
        let permits = self.until_stopped(waiting).await?;
        // At a shutdown the permits may be those of a job that was stopped just before.
        self.check_stop()?;
        if is_marked_running {
            return Ok(permits);
        }
        // Work that must not run twice must not look unstarted after a power cut.
        let durability = if self.is_repeatable { Durability::Written } else { Durability::Synced };
        loop {
            match jobs.store.start(lease, jobs.now(), durability).await {
                Ok(UpdateResult::Applied) => return Ok(permits),
                Ok(UpdateResult::LeaseLost) | Err(StoreError::Stopped) => {
                    self.lease_lost = true;
                    return Err(Error::new(ErrorKind::Cancelled, "another process took over the job"));
                }
                // Probably a full disk: an acknowledged job waits for space.
                Err(_) => {
                    self.until_stopped(tokio::time::sleep(RETRY_DELAY).map(Ok)).await?;
                }
            }
        }
    }

    /// Writes the outcome to the row before it is published. `None` when the row is left to another process.
    async fn finish(&mut self, outcome: Outcome) -> Option<Outcome> {
        let Some(lease) = self.lease else { return Some(outcome) };
        let is_left =
            self.stopped == Some(StopSignal::ShuttingDown) && (self.is_repeatable || !self.is_started);
        if is_left || self.lease_lost {
            return None;
        }
        let jobs = &self.jobs;
        let state = end_state(&outcome);
        let ttl = jobs.options.load().retention(self.timing, state);
        let encoded = jobs.codec.write(&outcome);
        // For a waiting caller the result must survive a crash of this process; for one that fetches it later
        // it must survive a power cut before the job is shown as finished.
        let awaited = matches!(self.origin, Origin::Submitted { awaited: true, .. });
        let durability = if awaited { Durability::Written } else { Durability::Synced };
        let mut pause = Duration::from_millis(50);
        loop {
            let end = JobEnd { state, outcome: Some(encoded.clone()), now: jobs.now(), ttl };
            match jobs.store.finish(lease, end, durability).await {
                Ok(UpdateResult::Applied) => return Some(outcome),
                Ok(UpdateResult::LeaseLost) | Err(StoreError::Stopped) => return None,
                // Probably a full disk: there is nothing to do but retry.
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }
}
