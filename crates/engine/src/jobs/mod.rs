//! Jobs: work with an outcome that outlives its request.
//!
//! A job is on disk before its id is returned. It runs in a task of this process under a lease that ends with
//! the process; another process then takes it over. Its id is the id of the call that created it.

mod handle;
mod job_caller;
mod options;
mod owner;
mod permits;
mod recover;
mod reports;
mod run;
mod running;
mod start;
mod steady_clock;
mod tasks;
mod visible;

pub use options::{Options, SharedOptions};
pub use owner::OwnerError;
pub(crate) use run::{JobRun, Started};
pub use steady_clock::SteadyClock;

use crate::clock::Clock;
use crate::execute::Engine;
use crate::lazy::Lazy;
use crate::stores::{EventStore, JobFilter, JobStore, StoreError};
use handle::{End, StopSignal};
use owner::Owner;
use running::RunningJobs;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use toolyard_protocol::{
    CacheKey, Error, ErrorKind, Id, Identity, InputRequest, InputResponse, Job, JobState, OutcomeCodec,
    Payload, Timestamp,
};

/// The job service, opened when it is first used.
pub type LazyJobs = Lazy<Arc<Jobs>>;

/// The longest that a shutdown waits for its jobs.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// How long a cancel waits until the end of a stopped job is stored.
const STORE_PATIENCE: Duration = Duration::from_secs(2);

/// The jobs of one process.
pub struct Jobs {
    store: Arc<dyn JobStore>,
    events: Arc<dyn EventStore>,
    codec: Arc<dyn OutcomeCodec>,
    arguments: Arc<dyn CacheKey>,
    clock: Arc<dyn Clock>,
    owner: Owner,
    options: SharedOptions,
    running: RunningJobs,
    /// For spawned tasks, which must not keep the service alive.
    weak_self: Weak<Jobs>,
}

/// The dependencies of a job service.
pub struct Parts {
    pub store: Arc<dyn JobStore>,
    pub events: Arc<dyn EventStore>,
    pub codec: Arc<dyn OutcomeCodec>,
    /// Tells whether two calls with the same key have the same arguments.
    pub arguments: Arc<dyn CacheKey>,
    /// Must not jump: it decides when a job has expired.
    pub clock: Arc<dyn Clock>,
    pub options: SharedOptions,
}

impl Jobs {
    /// `id` identifies this process among those that share the state folder.
    pub fn open(state_dir: &std::path::Path, id: Id, parts: Parts) -> Result<Arc<Jobs>, OwnerError> {
        let owner = Owner::register(state_dir, id)?;
        let Parts { store, events, codec, arguments, clock, options } = parts;
        let running = RunningJobs::new(&options.load());
        Ok(Arc::new_cyclic(|weak_self| Jobs {
            store,
            events,
            codec,
            arguments,
            clock,
            owner,
            options,
            running,
            weak_self: weak_self.clone(),
        }))
    }

    pub fn store(&self) -> &Arc<dyn JobStore> {
        &self.store
    }

    pub fn events(&self) -> &Arc<dyn EventStore> {
        &self.events
    }

    /// A job that the caller may see. A job of another caller is reported as not found.
    pub async fn get(&self, id: Id, identity: &Identity) -> Result<Job, Error> {
        let job = self.store.get(id).await?;
        job.filter(|job| identity.may_see(&job.identity)).ok_or_else(|| job_not_found(id))
    }

    pub async fn list(&self, filter: JobFilter) -> Result<Vec<Job>, Error> {
        Ok(self.store.list(filter).await?)
    }

    /// Waits until the job has finished or the timeout expires, and returns it in its current state.
    pub async fn wait(&self, id: Id, identity: &Identity, timeout: Duration) -> Result<Job, Error> {
        let until = Instant::now() + timeout;
        if let Some(handle) = self.running.get(id).filter(|_| !timeout.is_zero()) {
            let mut status = handle.status();
            let ended = status.wait_for(|status| matches!(status.end, End::Ended(_)));
            let _ = tokio::time::timeout_at(until.into(), ended).await;
        }
        loop {
            // The cursor is read before the job, so that no change in between is missed.
            let seen = self.events.read(Default::default()).await?.cursor;
            let job = self.get(id, identity).await?;
            let left = until.saturating_duration_since(Instant::now());
            if job.state.is_finished() || left.is_zero() {
                return Ok(job);
            }
            tokio::select! {
                waited = self.events.wait(seen, left.min(Duration::from_secs(5))) => waited?,
                // What is left of the job is up to another process.
                () = self.running.closing() => return Ok(job),
            }
        }
    }

    /// Cancels a job. If it ran in this process, its process tree is dead when this returns, even with an error.
    pub async fn cancel(&self, id: Id, identity: &Identity) -> Result<JobState, Error> {
        self.get(id, identity).await?;
        let is_here = self.stop_here(id).await;
        match self.store.cancel(id, self.clock.now()).await {
            Err(error @ (StoreError::Full | StoreError::Broken(_))) if is_here => {
                let message = format!("the job was stopped, but its end cannot be stored yet: {error}");
                Err(Error::new(ErrorKind::Unavailable, message)
                    .hint("it ends as cancelled once there is space"))
            }
            cancelled => Ok(cancelled?),
        }
    }

    /// Stops a job that runs in this process, and waits until its work has stopped and, for a moment, until that
    /// is stored. `false` when it does not run here.
    async fn stop_here(&self, id: Id) -> bool {
        let Some(handle) = self.running.get(id) else { return false };
        handle.stop(StopSignal::Cancelled);
        let mut status = handle.status();
        let _ = status.wait_for(|status| !matches!(status.end, End::Running)).await;
        let ended = status.wait_for(|status| matches!(status.end, End::Ended(_)));
        let _ = tokio::time::timeout(STORE_PATIENCE, ended).await;
        true
    }

    /// The open questions of a job that runs in this process.
    pub fn questions(&self, id: Id) -> Vec<InputRequest> {
        self.running.get(id).map_or(Vec::new(), |handle| handle.questions())
    }

    /// Answers a question; `false` when no question with this key is open.
    pub fn answer(&self, id: Id, key: &str, answer: InputResponse) -> bool {
        self.running.get(id).is_some_and(|handle| handle.answer(key, None, Ok(answer)))
    }

    /// Maintains the jobs until the service is dropped: takes over jobs of dead processes, applies cancel
    /// requests from other processes, removes expired jobs.
    pub fn spawn_maintenance(self: &Arc<Self>, engine: &Engine) {
        // Without the job service: a reference cycle would keep both alive.
        let engine = Engine { jobs: LazyJobs::unavailable(), ..engine.clone() };
        let jobs = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                let Some(jobs) = jobs.upgrade() else { return };
                jobs.owner.renew();
                // Failures, such as a full disk or a locked file, are retried at the next interval.
                let _ = jobs.recover_orphaned_jobs(&engine).await;
                let _ = jobs.apply_cancel_requests().await;
                let _ = jobs.remove_expired().await;
                let audit = engine.audit.clone();
                let _ = tokio::task::spawn_blocking(move || audit.maintain()).await;
                let pause = jobs.options.load().maintenance_interval;
                drop(jobs);
                tokio::time::sleep(pause).await;
            }
        });
    }

    /// Stops all jobs of this process. Jobs that have not run, and repeatable ones, are left to the next process;
    /// others end as cancelled. Takes a few seconds at most: on a full disk their rows stay as they are.
    pub async fn shut_down(&self) {
        self.running.close(SHUTDOWN_LIMIT).await;
    }

    async fn apply_cancel_requests(&self) -> Result<(), Error> {
        if self.running.is_empty() {
            return Ok(());
        }
        for id in self.store.cancel_requests(self.owner.id).await? {
            if let Some(handle) = self.running.get(id) {
                handle.stop(StopSignal::Cancelled);
            }
        }
        Ok(())
    }

    /// Removes expired jobs; the maintenance loop does so too.
    pub async fn remove_expired(&self) -> Result<(), Error> {
        while self.store.expire(self.now(), 500).await? == 500 {}
        Ok(())
    }

    /// Whether two calls have the same arguments, in whatever order and with whatever spaces.
    fn is_same(&self, stored: &Payload, given: &Payload) -> Result<bool, Error> {
        Ok(stored == given || self.arguments.key(stored)? == self.arguments.key(given)?)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

pub fn job_not_found(id: Id) -> Error {
    Error::new(ErrorKind::ResourceNotFound, format!("there is no job '{id}'"))
        .hint("'toolyard job list' shows the jobs; they are removed some time after their end")
}
