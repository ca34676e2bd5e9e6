//! The task of one job, from its first gate to the end of its row.

use super::handle::StopSignal;
use super::job_caller::{HeldPermit, JobCaller};
use super::permits::{JobPermit, Priority};
use super::running::JobWorker;
use super::start::{end_state, idempotency_conflict, restart_limit};
use crate::execute::{Engine, Execution};
use crate::gates::concurrency::ToolPermit;
use crate::gates::run::catch_panic;
use crate::registry::Entry;
use crate::stores::{Created, Durability, JobEnd, Lease, StoreError, UpdateResult};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::timeout;
use toolyard_protocol::{Call, Error, ErrorKind, Job, JobState, Outcome, Redactor, Timestamp, Timing};

/// The retry delay when the store fails, for example because the disk is full.
const RETRY_DELAY: Duration = Duration::from_millis(200);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);
/// How long a process that shuts down tries to write the end of a job. Then the next process finds it running.
const LAST_TRIES: Duration = Duration::from_secs(2);

/// The state of a job's task. Dropping the task leaves the row to the next process.
pub struct JobRun {
    worker: JobWorker,
    origin: Origin,
    timing: Timing,
    /// The lease of the row, once this job owns it.
    lease: Option<Lease>,
    permit: Option<Arc<HeldPermit>>,
    /// Whether the next process may run the job again.
    is_repeatable: bool,
    /// Whether the row has the arguments as they were given.
    is_complete_row: bool,
    stopped: Option<StopSignal>,
    /// Another process has the row.
    lease_lost: bool,
}

pub enum Origin {
    /// A call of this process. The channel tells the caller that the job was created.
    Submitted(Option<oneshot::Sender<Accepted>>),
    /// The row of a process that died, and when others died while they ran the job.
    Recovered(Vec<Timestamp>),
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
    pub fn new(worker: JobWorker, timing: Timing, origin: Origin, lease: Option<Lease>) -> JobRun {
        JobRun {
            worker,
            origin,
            timing,
            lease,
            permit: None,
            is_repeatable: false,
            is_complete_row: true,
            stopped: None,
            lease_lost: false,
        }
    }

    /// The body of the task.
    pub async fn run(mut self, engine: Engine, call: Call) {
        let executed = async { Ok(engine.execute(&call, Execution::Job(&mut self)).await) };
        let outcome = catch_panic(std::pin::pin!(executed)).await.unwrap_or_else(Outcome::failure);
        // A full disk may delay the end of the row; other jobs need not wait for it.
        self.permit = None;
        self.worker.handle.set_stopped();
        let outcome = self.finish(outcome).await;
        self.worker.end(outcome);
    }

    pub fn is_recovered(&self) -> bool {
        matches!(self.origin, Origin::Recovered(_))
    }

    /// Whether the job owns a row.
    pub fn is_ours(&self) -> bool {
        self.lease.is_some()
    }

    /// Waits for a stop signal.
    pub async fn stop_requested(&self) {
        self.worker.handle.stopped().await;
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
        let jobs = self.worker.jobs.clone();
        if let Origin::Recovered(deaths) = &self.origin {
            restart_limit(deaths, jobs.options.load().max_attempts)?;
        }
        let mut acquired = None;
        let mut is_marked_running = false;
        let lease = match self.lease {
            Some(lease) => lease,
            None => {
                acquired = entry.limiter.try_acquire().zip(jobs.running.permits.try_acquire(&call.identity));
                let (new, is_complete) = jobs.new_job(call, &entry.spec, acquired.is_some(), redactor);
                self.is_complete_row = is_complete;
                is_marked_running = new.state == JobState::Running;
                let arguments = new.arguments.clone();
                match jobs.store.create(new).await? {
                    Created::New(lease) => lease,
                    Created::Existing(job) if jobs.is_same(&job.arguments, &arguments)? => {
                        // Its permits are needed by others while it waits for the other job.
                        drop(acquired);
                        return self.join(job).await;
                    }
                    Created::Existing(job) => return Err(idempotency_conflict(&job)),
                }
            }
        };
        self.lease = Some(lease);
        self.accept(Accepted::Created);
        let (tool_permit, permit) = match acquired {
            Some(acquired) => acquired,
            None => self.wait_for_permits(lease, call, entry, is_marked_running).await?,
        };
        let permit = HeldPermit::new(permit, call.identity.clone());
        self.permit = Some(permit.clone());
        let caller = JobCaller::new(jobs, self.worker.handle.clone(), lease, permit);
        Ok(Started::Running(ToolPermit::Acquired(tool_permit), caller))
    }

    /// Runs the tool unless a stop signal came first. A runner that does not announce its start counts as begun.
    pub async fn run_tool<T>(
        &mut self,
        announces_start: bool,
        run: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.check_stop()?;
        if !announces_start {
            self.worker.handle.begin_work().map_err(|signal| self.stop(signal))?;
        }
        self.until_stopped(run).await
    }

    /// Waits for `work` or the stop signal. Dropping the run kills the tool's process tree.
    async fn until_stopped<T>(&mut self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let handle = self.worker.handle.clone();
        let signal = tokio::select! {
            // A result that is there counts, whatever the signal says.
            biased;
            result = work => return result,
            signal = handle.stopped() => signal,
        };
        Err(self.stop(signal))
    }

    /// Nothing new begins after a stop signal.
    fn check_stop(&mut self) -> Result<(), Error> {
        let signal = self.worker.handle.stop_signal();
        if signal == StopSignal::None { Ok(()) } else { Err(self.stop(signal)) }
    }

    fn stop(&mut self, signal: StopSignal) -> Error {
        self.stopped = Some(signal);
        stop_error(signal, self.worker.handle.has_begun())
    }

    /// Ignores a caller that has disconnected.
    fn accept(&mut self, accepted: Accepted) {
        if let Origin::Submitted(sender) = &mut self.origin
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

    /// First the tool's permit, then that of the caller and the process: jobs that wait for a tool must not keep
    /// others from running.
    async fn wait_for_permits(
        &mut self,
        lease: Lease,
        call: &Call,
        entry: &Arc<Entry>,
        is_marked_running: bool,
    ) -> Result<(Option<OwnedSemaphorePermit>, JobPermit), Error> {
        let jobs = self.worker.jobs.clone();
        let waiting = async {
            let tool = entry.limiter.acquire().await?;
            Ok((tool, jobs.running.permits.acquire(&call.identity, Priority::New).await))
        };
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
                Ok(UpdateResult::LeaseLost) | Err(StoreError::Stopped | StoreError::Invalid(_)) => {
                    self.lease_lost = true;
                    return Err(Error::new(ErrorKind::Cancelled, "another process took over the job"));
                }
                // Probably a full disk: an acknowledged job waits for space.
                Err(_) => {
                    let pause = async {
                        tokio::time::sleep(RETRY_DELAY).await;
                        Ok(())
                    };
                    self.until_stopped(pause).await?;
                }
            }
        }
    }

    /// Writes the outcome to the row before it is published. `None` when the row is left to another process.
    async fn finish(&mut self, outcome: Outcome) -> Option<Outcome> {
        let Some(lease) = self.lease else { return Some(outcome) };
        if self.lease_lost {
            return None;
        }
        let progress = timeout(LAST_TRIES, self.worker.handle.reports.finish()).await.ok().flatten();
        if self.is_left_to_the_next_process() {
            self.give_back(lease).await;
            return None;
        }
        let (jobs, handle) = (&self.worker.jobs, &self.worker.handle);
        let state = end_state(&outcome);
        let ttl = jobs.options.load().retention(self.timing, state);
        let encoded = jobs.codec.write(&outcome);
        let mut retry = Retry::default();
        loop {
            // For a caller that waits in its request the result must survive a crash of this process; for one
            // that fetches it later, and for a cancel, it must survive a power cut before it is shown.
            let is_awaited = handle.begin_end() && self.stopped.is_none();
            let durability = if is_awaited { Durability::Written } else { Durability::Synced };
            let (outcome_, progress) = (Some(encoded.clone()), progress.clone());
            let end = JobEnd { state, outcome: outcome_, progress, now: jobs.now(), ttl };
            match jobs.store.finish(lease, end, durability).await {
                Ok(UpdateResult::Applied) => return Some(outcome),
                Ok(UpdateResult::LeaseLost) | Err(StoreError::Stopped | StoreError::Invalid(_)) => {
                    return None;
                }
                // Probably a full disk: there is nothing to do but retry.
                Err(_) => {
                    handle.end_failed();
                    if !retry.pause(&self.worker).await {
                        return None;
                    }
                }
            }
        }
    }

    /// A job that has not run, or that may run again, is not lost when the server is stopped.
    fn is_left_to_the_next_process(&self) -> bool {
        let has_run = self.worker.handle.has_begun();
        let signal = self.stopped.unwrap_or_else(|| match has_run {
            true => StopSignal::None,
            false => self.worker.handle.stop_signal(),
        });
        signal == StopSignal::ShuttingDown && self.is_complete_row && (self.is_repeatable || !has_run)
    }

    async fn give_back(&self, lease: Lease) {
        let (jobs, mut retry) = (&self.worker.jobs, Retry::default());
        let has_run = self.worker.handle.has_begun();
        while let Err(StoreError::Full | StoreError::Broken(_)) =
            jobs.store.give_back(lease, has_run, jobs.now()).await
        {
            if !retry.pause(&self.worker).await {
                return;
            }
        }
    }
}

/// The error of a job that a stop signal ended.
pub fn stop_error(signal: StopSignal, has_run: bool) -> Error {
    let message = match signal {
        StopSignal::ShuttingDown if has_run => {
            "the server was stopped while the job ran; the tool's whole process tree was killed"
        }
        StopSignal::ShuttingDown => "the server was stopped before the job ran",
        StopSignal::None | StopSignal::Cancelled => "the job was cancelled",
    };
    Error::new(ErrorKind::Cancelled, message)
}

/// Growing pauses between the tries to write an end, until the process shuts down.
struct Retry {
    pause: Duration,
    last: Option<Instant>,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry { pause: Duration::from_millis(50), last: None }
    }
}

impl Retry {
    /// `false` when there is no more time to try.
    async fn pause(&mut self, worker: &JobWorker) -> bool {
        if self.last.is_none() {
            let is_closing = worker.jobs.running.closing();
            tokio::select! {
                () = tokio::time::sleep(self.pause) => {
                    self.pause = (self.pause * 2).min(MAX_RETRY_DELAY);
                    return true;
                }
                () = is_closing => self.last = Some(Instant::now() + LAST_TRIES),
            }
        }
        tokio::time::sleep(RETRY_DELAY).await;
        self.last.is_some_and(|last| Instant::now() < last)
    }
}
