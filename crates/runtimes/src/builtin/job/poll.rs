//! `job.poll`: waits for jobs to finish. It is woken by their events instead of polling.

use super::MAX_WAIT_MS;
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_engine::jobs::Jobs;
use toolyard_engine::stores::{EventQuery, EventStore, StoreError};
use toolyard_protocol::{Annotations, Context, Error, Id, Identity, JobState, Request, Tool, Violation};

pub struct Poll(pub Arc<Services>);

const MAX_IDS: usize = 100;
const DEFAULT_WAIT_MS: u64 = 5000;
/// Time reserved for the response before the caller's deadline.
const MARGIN: Duration = Duration::from_millis(100);

#[derive(Deserialize, JsonSchema)]
pub struct PollRequest {
    /// At least one id; `job.list` returns them.
    #[schemars(length(min = 1, max = 100))]
    pub job_ids: Vec<Id>,
    /// How long to wait; default 5000. 0 returns at once.
    #[serde(default)]
    #[schemars(range(max = 30000))]
    pub timeout_ms: Option<u64>,
    /// Wait for `any` or `all` of the jobs; default `any`.
    #[serde(default)]
    pub mode: Mode,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    #[default]
    Any,
    All,
}

#[derive(Serialize, JsonSchema)]
pub struct PollResponse {
    pub completed: Vec<Id>,
    /// Failed jobs, and jobs in the state `unknown`.
    pub failed: Vec<Id>,
    pub cancelled: Vec<Id>,
    pub pending: Vec<Id>,
    /// Ids that are not jobs of the caller.
    pub unknown: Vec<Id>,
    pub timed_out: bool,
    pub reason: Reason,
    pub elapsed_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The awaited jobs are finished.
    JobComplete,
    Timeout,
    /// None of the ids is a job of the caller.
    NothingPending,
}

impl Request for PollRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        if self.job_ids.is_empty() {
            validate::add(violations, "/job_ids", "must contain at least one id");
        }
        if self.job_ids.len() > MAX_IDS {
            let count = self.job_ids.len();
            validate::add(violations, "/job_ids", format!("has {count} ids; the maximum is {MAX_IDS}"));
        }
        validate::number(violations, "/timeout_ms", self.timeout_ms, 0..=MAX_WAIT_MS);
    }
}

impl Tool for Poll {
    type Request = PollRequest;
    type Response = PollResponse;

    const NAME: &'static str = "job.poll";
    const TITLE: &'static str = "Wait for jobs";
    const DESCRIPTION: &'static str =
        "Waits until one or all of the jobs are finished, and groups them by outcome.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const TIMEOUT: Duration = Duration::from_millis(MAX_WAIT_MS + 5000);

    async fn run(&self, request: PollRequest, context: Context<'_>) -> Result<PollResponse, Error> {
        let started = Instant::now();
        let requested = started + Duration::from_millis(request.timeout_ms.unwrap_or(DEFAULT_WAIT_MS));
        let until = requested.min(context.deadline.checked_sub(MARGIN).unwrap_or(started));
        let mut ids = request.job_ids;
        ids.sort_unstable();
        ids.dedup();
        let mut poll = JobPoll::new(self.0.jobs()?, &context.call.identity, ids);
        loop {
            // The cursor is read before the states, so that no change in between is missed.
            let cursor = poll.events().read(EventQuery { limit: 1, ..EventQuery::default() }).await?.cursor;
            poll.refresh().await?;
            if poll.is_done(request.mode) || Instant::now() >= until {
                return Ok(poll.into_response(request.mode, started.elapsed()));
            }
            poll.wait(cursor, until).await?;
        }
    }
}

/// The jobs of one poll, grouped by state.
struct JobPoll<'a> {
    jobs: &'a Jobs,
    identity: &'a Identity,
    pending: Vec<Id>,
    finished: Vec<(Id, JobState)>,
    unknown: Vec<Id>,
}

impl<'a> JobPoll<'a> {
    fn new(jobs: &'a Jobs, identity: &'a Identity, pending: Vec<Id>) -> JobPoll<'a> {
        JobPoll { jobs, identity, pending, finished: Vec::new(), unknown: Vec::new() }
    }

    fn events(&self) -> &'a dyn EventStore {
        self.jobs.events().as_ref()
    }

    async fn refresh(&mut self) -> Result<(), Error> {
        let mut still = Vec::new();
        for id in std::mem::take(&mut self.pending) {
            match self.jobs.store().get(id).await?.filter(|job| job.identity == *self.identity) {
                None => self.unknown.push(id),
                Some(job) if job.state.is_finished() => self.finished.push((id, job.state)),
                Some(_) => still.push(id),
            }
        }
        self.pending = still;
        Ok(())
    }

    fn is_done(&self, mode: Mode) -> bool {
        self.pending.is_empty() || (mode == Mode::Any && !self.finished.is_empty())
    }

    /// Waits until one of the pending jobs changes its state or the time is up.
    async fn wait(&self, mut cursor: u64, until: Instant) -> Result<(), Error> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.events().wait(cursor, left).await?;
            let kinds = vec!["job_state_changed".to_owned()];
            let query = EventQuery { after: Some(cursor), kinds, limit: 1000, ..EventQuery::default() };
            let page = match self.events().read(query).await {
                Ok(page) => page,
                // Events were missed, so read the states again.
                Err(StoreError::CursorExpired { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let ours = |subject: &String| Id::parse(subject).is_some_and(|id| self.pending.contains(&id));
            if page.events.iter().any(|event| event.subject.as_ref().is_some_and(ours)) {
                return Ok(());
            }
            cursor = page.cursor;
        }
    }

    fn into_response(self, mode: Mode, elapsed: Duration) -> PollResponse {
        let done = self.is_done(mode);
        let reason = match (done, self.finished.is_empty()) {
            (false, _) => Reason::Timeout,
            (true, false) => Reason::JobComplete,
            (true, true) => Reason::NothingPending,
        };
        let with = |wanted: &[JobState]| {
            let matching = self.finished.iter().filter(|(_, state)| wanted.contains(state));
            matching.map(|(id, _)| *id).collect::<Vec<_>>()
        };
        PollResponse {
            completed: with(&[JobState::Complete]),
            failed: with(&[JobState::Failed, JobState::Unknown]),
            cancelled: with(&[JobState::Cancelled]),
            timed_out: !done,
            reason,
            elapsed_ms: elapsed.as_millis() as u64,
            pending: self.pending,
            unknown: self.unknown,
        }
    }
}
