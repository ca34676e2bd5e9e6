//! Submits a call as a job and waits for its outcome as long as the caller wants.

use super::run::{Accepted, JobRun, Origin};
use super::running::{JobListener, JobUpdate};
use super::{Jobs, job_not_found};
use crate::execute::Engine;
use crate::stores::NewJob;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{oneshot, watch};
use toolyard_protocol::{
    Call, Caller, Error, ErrorKind, Id, JobState, Outcome, Payload, Redactor, Timing, ToolSpec, Wait,
};

/// The longest that a caller waits, unless twice the tool's timeout is longer.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// How long a caller waits.
#[derive(Clone, Copy)]
struct WaitPolicy {
    wait: Duration,
    /// Stop waiting when the tool detaches.
    until_detached: bool,
}

impl Jobs {
    /// Runs a call as a job: in a task that outlives its caller.
    pub async fn submit(&self, engine: &Engine, call: Call, spec: &ToolSpec, caller: &dyn Caller) -> Outcome {
        let Some(jobs) = self.weak_self.upgrade() else { return Outcome::failure(shutting_down()) };
        let wait_policy =
            WaitPolicy { wait: max_wait(&call, spec), until_detached: call.wait == Wait::UntilDetached };
        let (id, identity) = (call.id, call.identity.clone());
        // A caller that disconnects before it knows the id can never find the job again, unless it has a key.
        let mut cancel_guard = CancelOnDrop { jobs: self, id, armed: call.idempotency_key.is_none() };
        let (worker, mut listener) = self.running.register(id);
        let (accepted, acceptance) = oneshot::channel();
        let awaited = !wait_policy.wait.is_zero();
        let origin = Origin::Submitted { accepted: Some(accepted), awaited };
        tokio::spawn(JobRun::new(jobs, worker, spec.timing, origin, None).run(engine.clone(), call));
        let outcome = match acceptance.await {
            Ok(Accepted::Created) => {
                self.wait_for_outcome(id, &identity, Some(listener), caller, wait_policy).await
            }
            Ok(Accepted::Existing(job, reply)) => {
                let other = self.running.subscribe(job.id);
                let outcome = self.wait_for_outcome(job.id, &identity, other, caller, wait_policy).await;
                let _ = reply.send(outcome.unwrap_or_else(Outcome::failure));
                end(&mut listener.end).await.map(Arc::unwrap_or_clone).ok_or_else(shutting_down)
            }
            // Refused: there is an outcome, but no job.
            Err(_) => end(&mut listener.end).await.map(Arc::unwrap_or_clone).ok_or_else(shutting_down),
        };
        cancel_guard.armed = false;
        outcome.unwrap_or_else(Outcome::failure)
    }

    /// Arguments are stored redacted, so a job with a secret in them cannot be run again from its row.
    pub(super) fn new_job(
        &self,
        call: &Call,
        spec: &ToolSpec,
        starts: bool,
        redactor: &dyn Redactor,
    ) -> NewJob {
        let hidden = redactor.payload(&call.arguments);
        let key = call.idempotency_key.as_ref();
        let options = self.options.load();
        NewJob {
            id: call.id,
            tool: spec.name.to_string(),
            repeatable: spec.annotations.is_safe_to_repeat() && hidden.is_none(),
            // Another process never starts a `Running` job unless it is repeatable.
            state: if starts || hidden.is_some() { JobState::Running } else { JobState::Pending },
            arguments: hidden.unwrap_or_else(|| call.arguments.clone()),
            identity: call.identity.clone(),
            timing: spec.timing,
            now: self.now(),
            owner: self.owner.id,
            ttl: options.keep_failed,
            key: key.map(|key| redactor.text(key).unwrap_or_else(|| key.clone())),
            trace: call.trace.map(|trace| trace.as_str().to_owned()),
            max_open: options.max_open,
            max_open_of_caller: options.max_open_of_caller,
        }
    }

    /// Waits for a job's outcome and forwards its updates; after the wait, returns its current state.
    async fn wait_for_outcome(
        &self,
        id: Id,
        identity: &toolyard_protocol::Identity,
        listener: Option<JobListener>,
        caller: &dyn Caller,
        WaitPolicy { wait, until_detached }: WaitPolicy,
    ) -> Result<Outcome, Error> {
        let mut until = Instant::now() + wait;
        // A caller that does not wait gets no updates and no questions.
        if let Some(listener) = listener.filter(|_| !wait.is_zero()) {
            let mut detached = listener.detached.clone();
            let listening = tokio::time::timeout_at(until.into(), self.forward_updates(id, listener, caller));
            tokio::select! {
                // First, so that questions after the detach are not sent to this caller.
                biased;
                Ok(_) = detached.wait_for(|detached| *detached), if until_detached => until = Instant::now(),
                ended = listening => if let Ok(Some(outcome)) = ended {
                    let mut outcome = Arc::unwrap_or_clone(outcome);
                    outcome.meta.job = Some((id, end_state(&outcome)));
                    return Ok(outcome);
                },
            }
        }
        let job = self.wait(id, identity, until.saturating_duration_since(Instant::now())).await?;
        self.outcome_of(&job)
    }

    /// `None` when the job was left to another process.
    async fn forward_updates(
        &self,
        id: Id,
        listener: JobListener,
        caller: &dyn Caller,
    ) -> Option<Arc<Outcome>> {
        let JobListener { end: mut ended, mut updates, .. } = listener;
        let mut questions = futures_util::stream::FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                update = updates.recv() => match update {
                    Ok(JobUpdate::Progress(progress)) => caller.progress(progress),
                    Ok(JobUpdate::Log(line)) => caller.log(line),
                    Ok(JobUpdate::InputRequest(question)) => questions.push(async {
                        let key = question.key.clone();
                        (key, caller.request_input(question).await)
                    }),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return end(&mut ended).await,
                },
                Some((key, answer)) = futures_util::StreamExt::next(&mut questions) => {
                    self.running.answer(id, &key, answer);
                }
                outcome = end(&mut ended) => return outcome,
            }
        }
    }

    /// The outcome of a finished job; the `job_started` result of an unfinished one.
    pub fn outcome_of(&self, job: &toolyard_protocol::Job) -> Result<Outcome, Error> {
        let mut outcome = match (&job.outcome, job.state) {
            (Some(encoded), _) => self.codec.read(encoded)?,
            (None, JobState::Cancelled) => {
                Outcome::failure(Error::new(ErrorKind::Cancelled, "the job was cancelled"))
            }
            (None, JobState::Unknown) => Outcome::failure(worker_died()),
            (None, state) if state.is_finished() => return Err(job_not_found(job.id)),
            (None, _) => job_started(job.id, &job.tool, job.timing),
        };
        outcome.meta.job = Some((job.id, job.state));
        Ok(outcome)
    }
}

async fn end(ended: &mut watch::Receiver<Option<Arc<Outcome>>>) -> Option<Arc<Outcome>> {
    // An error means that the worker ended without an outcome, as at a shutdown.
    ended.wait_for(Option::is_some).await.ok()?.clone()
}

/// The result for a job that is still running: the `job_started` result of typed tools.
fn job_started(id: Id, tool: &str, timing: Timing) -> Outcome {
    // Ids, canonical names and timings need no escaping.
    let data = format!(r#"{{"job_id":"{id}","tool":"{tool}","timing":"{}"}}"#, timing.as_str());
    Outcome::success(Some(Payload::json(data)))
}

pub fn end_state(outcome: &Outcome) -> JobState {
    match outcome.error() {
        None => JobState::Complete,
        Some(error) if error.kind == ErrorKind::Cancelled => JobState::Cancelled,
        // A partial success has data, so it is complete.
        Some(_) if outcome.data().is_some() => JobState::Complete,
        Some(_) => JobState::Failed,
    }
}

fn max_wait(call: &Call, spec: &ToolSpec) -> Duration {
    match call.wait {
        Wait::UntilDone | Wait::UntilDetached => MAX_WAIT.max(spec.limits.timeout * 2),
        Wait::NoWait => Duration::ZERO,
        // A sync call with a key is a job only to avoid a second run: its caller wants the result.
        Wait::AsDeclared => spec.timing.wait().unwrap_or(MAX_WAIT.max(spec.limits.timeout * 2)),
    }
}

pub fn worker_died() -> Error {
    Error::new(ErrorKind::Unavailable, "the process that ran the job died; how far the job got is unknown")
        .hint("the tool is not declared safe to repeat; check what it did before running it again")
}

fn shutting_down() -> Error {
    Error::new(ErrorKind::Unavailable, "the server is shutting down")
}

/// Cancels a job whose caller disconnected before it got the id.
struct CancelOnDrop<'a> {
    jobs: &'a Jobs,
    id: Id,
    armed: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Some(jobs) = self.jobs.weak_self.upgrade().filter(|_| self.armed) else { return };
        let id = self.id;
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = jobs.store.cancel(id, jobs.now()).await;
                jobs.running.stop(id).await;
            });
        }
    }
}
