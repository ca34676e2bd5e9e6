//! Submits a call as a job and waits for its outcome as long as the caller wants.

use super::handle::{End, JobListener, JobUpdate, OpenQuestion, StopSignal};
use super::run::{Accepted, JobRun, Origin};
use super::running::JobWorker;
use super::{Jobs, job_not_found};
use crate::execute::Engine;
use crate::stores::NewJob;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use toolyard_protocol::{
    Call, Caller, Error, ErrorKind, Id, InputResponse, Job, JobState, Outcome, Payload, Redactor, Timestamp,
    Timing, ToolSpec, Wait,
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
        let worker = JobWorker::register(jobs, id);
        let mut listener = JobListener::new(worker.handle.clone());
        if !wait_policy.wait.is_zero() {
            listener.begin_waiting();
        }
        let (accepted, acceptance) = oneshot::channel();
        let origin = Origin::Submitted(Some(accepted));
        tokio::spawn(JobRun::new(worker, spec.timing, origin, None).run(engine.clone(), call));
        let outcome = match acceptance.await {
            Ok(Accepted::Created) => {
                self.wait_for_outcome(id, &identity, Some(listener), caller, wait_policy).await
            }
            Ok(Accepted::Existing(job, reply)) => {
                let other = self.running.get(job.id).map(JobListener::new);
                let outcome = self.wait_for_outcome(job.id, &identity, other, caller, wait_policy).await;
                let _ = reply.send(outcome.unwrap_or_else(Outcome::failure));
                own_end(&mut listener).await
            }
            // Refused: there is an outcome, but no job.
            Err(_) => own_end(&mut listener).await,
        };
        cancel_guard.armed = false;
        outcome.unwrap_or_else(Outcome::failure)
    }

    /// Arguments are stored redacted, so a job with a secret in them cannot be run again from its row: then the
    /// second value is `false`.
    pub(super) fn new_job(
        &self,
        call: &Call,
        spec: &ToolSpec,
        starts: bool,
        redactor: &dyn Redactor,
    ) -> (NewJob, bool) {
        let hidden = redactor.payload(&call.arguments);
        let key = call.idempotency_key.as_ref();
        let (options, is_complete) = (self.options.load(), hidden.is_none());
        let new = NewJob {
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
        };
        (new, is_complete)
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
        if let Some(mut listener) = listener.filter(|_| !wait.is_zero()) {
            let mut status = listener.status.clone();
            let listening = tokio::time::timeout_at(until.into(), forward_updates(&mut listener, caller));
            let mut ended = tokio::select! {
                // First, so that questions after the detach are not sent to this caller.
                biased;
                Ok(_) = status.wait_for(|status| status.is_detached), if until_detached => {
                    until = Instant::now();
                    None
                }
                ended = listening => ended.ok().flatten(),
            };
            if ended.is_none() && !listener.try_leave() {
                // The end is being written for this caller, so it gets it.
                ended = match listener.ended().await {
                    End::Ended(outcome) => outcome,
                    End::Running | End::Stopped => None,
                };
            }
            if let Some(outcome) = ended {
                let mut outcome = Arc::unwrap_or_clone(outcome);
                outcome.meta.job = Some((id, end_state(&outcome)));
                return Ok(outcome);
            }
        }
        let job = self.wait(id, identity, until.saturating_duration_since(Instant::now())).await?;
        self.outcome_of(&job)
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

/// Passes updates and questions on until the job ends. `None` when it was left to another process.
async fn forward_updates(listener: &mut JobListener, caller: &dyn Caller) -> Option<Arc<Outcome>> {
    let mut asked = HashSet::new();
    let mut questions = FuturesUnordered::new();
    // Those that were open before this caller came.
    let mut to_ask = listener.open_questions();
    loop {
        // Read before the updates, so that none is missed.
        let end = listener.status.borrow_and_update().end.clone();
        let (updates, is_behind) = listener.new_updates();
        for update in updates {
            match update {
                JobUpdate::Progress(progress) => caller.progress(progress),
                JobUpdate::Log(line) => caller.log(line),
                JobUpdate::Asked(number) => to_ask.extend(listener.question(number)),
            }
        }
        if is_behind {
            to_ask.extend(listener.open_questions());
        }
        if let End::Ended(outcome) = end {
            return outcome;
        }
        to_ask.retain(|question| asked.insert(question.number));
        questions.extend(to_ask.drain(..).map(|question| ask(caller, question)));
        tokio::select! {
            biased;
            changed = listener.status.changed() => if changed.is_err() { return None },
            Some(answered) = questions.next() => if let Some((key, number, answer)) = answered {
                listener.answer(&key, number, answer);
            },
        }
    }
}

type Answered = (String, u64, Result<InputResponse, Error>);

/// `None` when the question was answered elsewhere, or withdrawn.
async fn ask(caller: &dyn Caller, mut question: OpenQuestion) -> Option<Answered> {
    let (key, number) = (question.request.key.clone(), question.number);
    let request = question.request.clone();
    tokio::select! {
        biased;
        () = question.closed() => None,
        answer = caller.request_input(request) => Some((key, number, answer)),
    }
}

/// The outcome of a call's own task, which may be a refusal without a job.
async fn own_end(listener: &mut JobListener) -> Result<Outcome, Error> {
    let ended = listener.status.wait_for(|status| matches!(status.end, End::Ended(_))).await;
    match ended.map(|status| status.end.clone()) {
        Ok(End::Ended(Some(outcome))) => Ok(Arc::unwrap_or_clone(outcome)),
        _ => Err(shutting_down()),
    }
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

pub fn idempotency_conflict(job: &Job) -> Error {
    let message = format!("the idempotency key was used before, with other arguments, by job '{}'", job.id);
    Error::new(ErrorKind::IdempotencyConflict, message)
        .hint("use a new key for another call, or send the same arguments again")
}

/// An error when too many processes died while they ran a job: it may be what kills them.
pub fn restart_limit(deaths: &[Timestamp], max_attempts: usize) -> Result<(), Error> {
    if deaths.len() < max_attempts {
        return Ok(());
    }
    let times: Vec<String> = deaths.iter().map(Timestamp::to_string).collect();
    let message = format!(
        "the job is not started again: the process that ran it died {} times, noticed at {}",
        deaths.len(),
        times.join(", ")
    );
    Err(Error::new(ErrorKind::ToolFailed, message)
        .hint("the log of `serve` may say why; [jobs] max_attempts is the limit"))
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
        if let Some(handle) = self.jobs.running.get(self.id).filter(|_| self.armed) {
            handle.stop(StopSignal::Cancelled);
        }
    }
}
