//! From a call to a job: it is kept, started, and waited for as long as the caller stays.

use super::live::{Note, Seat};
use super::work::Work;
use super::{Jobs, Passage, unknown};
use crate::audit::Begun;
use crate::registry::Entry;
use crate::stores::{Created, NewJob};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use toolyard_protocol::{
    Call, Caller, Error, ErrorKind, Id, JobState, Outcome, Payload, Redactor, Timing, ToolSpec, Wait,
};

/// A caller that waits to the end asks again this often whether a job of another process is over.
const PATIENCE: Duration = Duration::from_secs(3600);

/// How long a caller stays.
#[derive(Clone, Copy)]
struct Stay {
    wait: Duration,
    /// It leaves earlier when the tool goes on by itself.
    heeds_detach: bool,
}

impl Jobs {
    /// Runs an admitted call as a job. `begun` is its audit record, ended when the work ends.
    pub async fn run(
        &self,
        passage: Passage,
        call: Call,
        caller: &dyn Caller,
        entry: Arc<Entry>,
        begun: Begun,
    ) -> Outcome {
        let stay =
            Stay { wait: patience(&call, &entry.spec), heeds_detach: call.wait == Wait::UntilDetached };
        let keyed = call.idempotency_key.is_some();
        let (id, identity) = (call.id, call.identity.clone());
        let place = self.live.try_place(&identity).zip(entry.controls.try_place());
        let new = self.new_job(&call, &entry.spec, place.is_some(), passage.redactor.as_ref());
        let marked_running = new.state == JobState::Running;
        let created = match self.store.create(new).await {
            Ok(created) => created,
            Err(error) => return refused(begun, error.into()),
        };
        let (id, seat) = match created {
            Created::New(lease) => {
                let (desk, seat) = self.live.enter(id);
                let work = Work { lease, call, entry, begun: Some(begun), place, marked_running, passage };
                let Some(jobs) = self.me.upgrade() else { return Outcome::failure(stopping()) };
                tokio::spawn(work.run(jobs, desk, !stay.wait.is_zero()));
                (id, Some(seat))
            }
            Created::Existing(job) => {
                let (id, seat) = (job.id, self.live.sit_down(job.id));
                let outcome = self.attend(id, &identity, seat, caller, stay).await;
                let outcome = outcome.unwrap_or_else(Outcome::failure);
                return match begun.end(&outcome) {
                    Ok(_) => outcome,
                    Err(error) => Outcome::failure(Error::from(&error)),
                };
            }
        };
        // Who leaves before knowing the id can never ask for the job again, unless it has a key.
        let mut abandoned = Abandoned { jobs: self, id, armed: !keyed };
        let outcome = self.attend(id, &identity, seat, caller, stay).await;
        abandoned.armed = false;
        outcome.unwrap_or_else(Outcome::failure)
    }

    /// A job whose arguments hold a secret is kept without it, and so can't be run again from what is kept.
    fn new_job(&self, call: &Call, spec: &ToolSpec, starts: bool, redactor: &dyn Redactor) -> NewJob {
        let hidden = redactor.payload(&call.arguments);
        let key = call.idempotency_key.as_ref();
        NewJob {
            id: call.id,
            tool: spec.name.to_string(),
            repeatable: spec.annotations.is_safe_to_repeat() && hidden.is_none(),
            // What counts as running is never started by another process unless it is repeatable.
            state: if starts || hidden.is_some() { JobState::Running } else { JobState::Pending },
            arguments: hidden.unwrap_or_else(|| call.arguments.clone()),
            identity: call.identity.clone(),
            timing: spec.timing,
            now: self.now(),
            owner: self.owner.id,
            ttl: self.options.keep_failed,
            key: key.map(|key| redactor.text(key).unwrap_or_else(|| key.clone())),
            trace: call.trace.map(|trace| trace.as_str().to_owned()),
            max_open: self.options.max_open,
            max_open_of_caller: self.options.max_open_of_caller,
        }
    }

    /// Waits for a job's end, passing on what it says; after the wait, the answer is where it stands.
    async fn attend(
        &self,
        id: Id,
        identity: &toolyard_protocol::Identity,
        seat: Option<Seat>,
        caller: &dyn Caller,
        Stay { wait, heeds_detach }: Stay,
    ) -> Result<Outcome, Error> {
        let mut until = Instant::now() + wait;
        // Who does not stay hears nothing, and is not asked.
        if let Some(seat) = seat.filter(|_| !wait.is_zero()) {
            let mut detached = seat.detached.clone();
            let listening = tokio::time::timeout_at(until.into(), self.listen(id, seat, caller));
            tokio::select! {
                // First, so that what the job asks when it is by itself is not put to this caller.
                biased;
                Ok(_) = detached.wait_for(|detached| *detached), if heeds_detach => until = Instant::now(),
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

    /// `None` when the job left this process unfinished.
    async fn listen(&self, id: Id, seat: Seat, caller: &dyn Caller) -> Option<Arc<Outcome>> {
        let Seat { end: mut ended, mut notes, .. } = seat;
        let mut questions = futures_util::stream::FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                note = notes.recv() => match note {
                    Ok(Note::Progress(progress)) => caller.progress(progress),
                    Ok(Note::Log(line)) => caller.log(line),
                    Ok(Note::Question(question)) => questions.push(async {
                        let key = question.key.clone();
                        (key, caller.ask(question).await)
                    }),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return end(&mut ended).await,
                },
                Some((key, answer)) = futures_util::StreamExt::next(&mut questions) => {
                    self.live.answer(id, &key, answer);
                }
                outcome = end(&mut ended) => return outcome,
            }
        }
    }

    /// The end of a job that is over; of one that is not, where it stands.
    pub fn outcome_of(&self, job: &toolyard_protocol::Job) -> Result<Outcome, Error> {
        let mut outcome = match (&job.outcome, job.state) {
            (Some(kept), _) => self.form.read(kept)?,
            (None, JobState::Cancelled) => {
                Outcome::failure(Error::new(ErrorKind::Cancelled, "the job was cancelled"))
            }
            (None, JobState::Unknown) => Outcome::failure(fate_unknown()),
            (None, state) if state.is_over() => return Err(unknown(job.id)),
            (None, _) => started(job.id, &job.tool, job.timing),
        };
        outcome.meta.job = Some((job.id, job.state));
        Ok(outcome)
    }
}

async fn end(ended: &mut watch::Receiver<Option<Arc<Outcome>>>) -> Option<Arc<Outcome>> {
    // An error means that the worker is gone without an end, as at a shutdown.
    ended.wait_for(Option::is_some).await.ok()?.clone()
}

/// The answer for a job that goes on: seed 004's `job_started`.
fn started(id: Id, tool: &str, timing: Timing) -> Outcome {
    // Ids, canonical names and timings need no escaping.
    let data = format!(r#"{{"job_id":"{id}","tool":"{tool}","timing":"{}"}}"#, timing.as_str());
    Outcome::success(Some(Payload::json(data)))
}

pub fn end_state(outcome: &Outcome) -> JobState {
    match outcome.error() {
        None => JobState::Complete,
        Some(error) if error.kind == ErrorKind::Cancelled => JobState::Cancelled,
        // Half a success is one: its data counts.
        Some(_) if outcome.data().is_some() => JobState::Complete,
        Some(_) => JobState::Failed,
    }
}

fn patience(call: &Call, spec: &ToolSpec) -> Duration {
    match call.wait {
        Wait::ToTheEnd | Wait::UntilDetached => PATIENCE.max(spec.limits.timeout * 2),
        Wait::NotAtAll => Duration::ZERO,
        // A plain call with a key is a job only so that it is not run twice: its caller wants the result.
        Wait::AsDeclared => spec.timing.wait().unwrap_or(PATIENCE.max(spec.limits.timeout * 2)),
    }
}

pub fn fate_unknown() -> Error {
    Error::new(ErrorKind::Unavailable, "the process that ran the job died, and no one knows how far it came")
        .hint("the tool is not declared safe to repeat; look at what it did before running it again")
}

fn stopping() -> Error {
    Error::new(ErrorKind::Unavailable, "the server is shutting down")
}

fn refused(begun: Begun, error: Error) -> Outcome {
    let outcome = Outcome::failure(error);
    match begun.end(&outcome) {
        Ok(_) => outcome,
        Err(error) => Outcome::failure(Error::from(&error)),
    }
}

/// Cancels a job whose caller went away before it was told the id.
struct Abandoned<'a> {
    jobs: &'a Jobs,
    id: Id,
    armed: bool,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Some(jobs) = self.jobs.me.upgrade().filter(|_| self.armed) else { return };
        let id = self.id;
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = jobs.store.cancel(id, jobs.now()).await;
                jobs.live.stop(id).await;
            });
        }
    }
}
