//! The caller of a running job: progress and log lines go to the store and to listeners, questions stay open.

use super::Jobs;
use super::handle::{JobHandle, JobUpdate, lock};
use super::permits::{JobPermit, Priority, Suspended};
use super::reports::Reports;
use super::run::stop_error;
use crate::stores::Lease;
use std::sync::{Arc, Mutex};
use toolyard_protocol::{
    Caller, Error, Identity, InputFuture, InputRequest, InputResponse, LogLine, Progress,
};

/// The permit of a job, which it gives up while it waits for answers.
pub struct HeldPermit {
    identity: Identity,
    state: Mutex<PermitState>,
    /// Whether the row says that the job waits for input; `None` when that is not certain.
    row: tokio::sync::Mutex<Option<bool>>,
}

struct PermitState {
    permit: Option<JobPermit>,
    suspended: Option<Suspended>,
    /// Questions that wait for their answer.
    waiting: usize,
}

impl HeldPermit {
    pub fn new(permit: JobPermit, identity: Identity) -> Arc<HeldPermit> {
        let state = PermitState { permit: Some(permit), suspended: None, waiting: 0 };
        let row = tokio::sync::Mutex::new(Some(false));
        Arc::new(HeldPermit { identity, state: Mutex::new(state), row })
    }

    /// Makes the row say whether the job waits for input. One write at a time, so that the last one is right.
    async fn write_waiting(&self, jobs: &Jobs, lease: Lease) -> Result<(), Error> {
        let mut row = self.row.lock().await;
        let is_waiting = lock(&self.state).waiting > 0;
        // Unknown until it is written: this future may be dropped meanwhile.
        if row.take() != Some(is_waiting) {
            jobs.store.set_waiting(lease, is_waiting, jobs.now()).await?;
        }
        *row = Some(is_waiting);
        Ok(())
    }
}

/// The caller that the tool of a job sees.
pub struct JobCaller {
    jobs: Arc<Jobs>,
    handle: Arc<JobHandle>,
    lease: Lease,
    permit: Arc<HeldPermit>,
}

/// While it exists, the tool waits for an answer. Dropping it early means that the tool no longer does.
struct WaitingForAnswer<'a> {
    caller: &'a JobCaller,
    is_over: bool,
}

impl JobCaller {
    pub fn new(jobs: Arc<Jobs>, handle: Arc<JobHandle>, lease: Lease, permit: Arc<HeldPermit>) -> JobCaller {
        JobCaller { jobs, handle, lease, permit }
    }

    async fn ask_and_wait(&self, question: InputRequest) -> Result<InputResponse, Error> {
        let mut asked = self.handle.ask(question)?;
        let waiting = self.begin_waiting();
        let answer = match self.permit.write_waiting(&self.jobs, self.lease).await {
            Ok(()) => asked.answer().await,
            // Nobody could see the question.
            Err(error) => Err(error),
        };
        drop(asked);
        waiting.end().await;
        // The answer counts, even if the disk is full now; the next write corrects the row.
        let _ = self.permit.write_waiting(&self.jobs, self.lease).await;
        answer
    }

    /// The first open question gives up the permit.
    fn begin_waiting(&self) -> WaitingForAnswer<'_> {
        let mut state = lock(&self.permit.state);
        state.waiting += 1;
        if let Some(permit) = state.permit.take() {
            match self.jobs.running.permits.suspend(permit) {
                Ok(suspended) => state.suspended = Some(suspended),
                Err(permit) => state.permit = Some(permit),
            }
        }
        drop(state);
        WaitingForAnswer { caller: self, is_over: false }
    }
}

impl WaitingForAnswer<'_> {
    /// The last answer waits for a permit again.
    async fn end(mut self) {
        let held = &self.caller.permit;
        let is_suspended = {
            let state = lock(&held.state);
            state.waiting == 1 && state.permit.is_none()
        };
        let resumed = match is_suspended {
            true => Some(self.caller.jobs.running.permits.acquire(&held.identity, Priority::Resumed).await),
            false => None,
        };
        let mut state = lock(&held.state);
        if let Some(permit) = resumed {
            (state.permit, state.suspended) = (Some(permit), None);
        }
        state.waiting -= 1;
        self.is_over = true;
    }
}

impl Drop for WaitingForAnswer<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let held = &self.caller.permit;
        let mut state = lock(&held.state);
        state.waiting -= 1;
        if state.waiting == 0 && state.permit.is_none() {
            // The tool ended, or goes on without the answer: it counts as running at once.
            state.permit = Some(self.caller.jobs.running.permits.force(&held.identity));
            state.suspended = None;
        }
        if state.waiting == 0
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (jobs, lease, held) = (self.caller.jobs.clone(), self.caller.lease, held.clone());
            // Without effect if the job has ended.
            runtime.spawn(async move {
                let _ = held.write_waiting(&jobs, lease).await;
            });
        }
    }
}

impl Caller for JobCaller {
    fn progress(&self, progress: Progress) {
        self.handle.send(JobUpdate::Progress(progress.clone()));
        Reports::progress(&self.handle, &self.jobs, self.lease, progress);
    }

    fn log(&self, line: LogLine) {
        Reports::log(&self.handle, &self.jobs, self.lease, &line);
        self.handle.send(JobUpdate::Log(line));
    }

    fn request_input(&self, question: InputRequest) -> InputFuture<'_> {
        Box::pin(self.ask_and_wait(question))
    }

    fn begin_work(&self) -> Result<(), Error> {
        self.handle.begin_work().map_err(|signal| stop_error(signal, false))
    }

    fn detach(&self) {
        self.handle.detach();
    }
}
