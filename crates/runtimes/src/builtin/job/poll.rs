//! `job.poll`: waits for jobs to end. Woken by their events, never by a clock alone.

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
/// What is left for the answer when the caller has a deadline of its own.
const MARGIN: Duration = Duration::from_millis(100);

#[derive(Deserialize, JsonSchema)]
pub struct PollRequest {
    /// At least one; `job.list` shows them.
    #[schemars(length(min = 1, max = 100))]
    pub job_ids: Vec<Id>,
    /// How long to wait at most; 5000 without it, 0 only looks.
    #[serde(default)]
    #[schemars(range(max = 30000))]
    pub timeout_ms: Option<u64>,
    /// Until one of them is over, or until all are; `any` without it.
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
    /// Failed, or of unknown fate.
    pub failed: Vec<Id>,
    pub cancelled: Vec<Id>,
    pub pending: Vec<Id>,
    /// No jobs of the caller: mistyped, someone else's, or forgotten.
    pub unknown: Vec<Id>,
    pub timed_out: bool,
    pub reason: Reason,
    pub elapsed_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// What was waited for has happened.
    JobComplete,
    Timeout,
    /// None of the ids is a job of the caller.
    NothingPending,
}

impl Request for PollRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        if self.job_ids.is_empty() {
            validate::add(violations, "/job_ids", "must name at least one job");
        }
        if self.job_ids.len() > MAX_IDS {
            let count = self.job_ids.len();
            validate::add(violations, "/job_ids", format!("has {count} ids; at most {MAX_IDS} are taken"));
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
        "Waits until one or all of the jobs are over, and sorts them by how they ended.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const TIMEOUT: Duration = Duration::from_millis(MAX_WAIT_MS + 5000);

    async fn run(&self, request: PollRequest, context: Context<'_>) -> Result<PollResponse, Error> {
        let started = Instant::now();
        let asked = started + Duration::from_millis(request.timeout_ms.unwrap_or(DEFAULT_WAIT_MS));
        let until = asked.min(context.deadline.checked_sub(MARGIN).unwrap_or(started));
        let mut ids = request.job_ids;
        ids.sort_unstable();
        ids.dedup();
        let mut poll = JobPoll::new(self.0.jobs()?, &context.call.identity, ids);
        loop {
            // The place in the log is taken before the look, so that no change falls between the two.
            let seen = poll.events().read(EventQuery { limit: 1, ..EventQuery::default() }).await?.cursor;
            poll.refresh().await?;
            if poll.is_done(request.mode) || Instant::now() >= until {
                return Ok(poll.answer(request.mode, started.elapsed()));
            }
            poll.wait(seen, until).await?;
        }
    }
}

/// The jobs of one poll, sorted as they end.
struct JobPoll<'a> {
    jobs: &'a Jobs,
    identity: &'a Identity,
    pending: Vec<Id>,
    over: Vec<(Id, JobState)>,
    unknown: Vec<Id>,
}

impl<'a> JobPoll<'a> {
    fn new(jobs: &'a Jobs, identity: &'a Identity, pending: Vec<Id>) -> JobPoll<'a> {
        JobPoll { jobs, identity, pending, over: Vec::new(), unknown: Vec::new() }
    }

    fn events(&self) -> &'a dyn EventStore {
        self.jobs.events().as_ref()
    }

    async fn refresh(&mut self) -> Result<(), Error> {
        let mut still = Vec::new();
        for id in std::mem::take(&mut self.pending) {
            match self.jobs.store().get(id).await?.filter(|job| job.identity == *self.identity) {
                None => self.unknown.push(id),
                Some(job) if job.state.is_finished() => self.over.push((id, job.state)),
                Some(_) => still.push(id),
            }
        }
        self.pending = still;
        Ok(())
    }

    fn is_done(&self, mode: Mode) -> bool {
        self.pending.is_empty() || (mode == Mode::Any && !self.over.is_empty())
    }

    /// Until one of the pending jobs changes its state, or the time is up.
    async fn wait(&self, mut seen: u64, until: Instant) -> Result<(), Error> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.events().wait(seen, left).await?;
            let kinds = vec!["job_state_changed".to_owned()];
            let query = EventQuery { after: Some(seen), kinds, limit: 1000, ..EventQuery::default() };
            let page = match self.events().read(query).await {
                Ok(page) => page,
                // So much has happened that it is simplest to look.
                Err(StoreError::CursorExpired { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let ours = |subject: &String| Id::parse(subject).is_some_and(|id| self.pending.contains(&id));
            if page.events.iter().any(|event| event.subject.as_ref().is_some_and(ours)) {
                return Ok(());
            }
            seen = page.cursor;
        }
    }

    fn answer(self, mode: Mode, elapsed: Duration) -> PollResponse {
        let done = self.is_done(mode);
        let reason = match (done, self.over.is_empty()) {
            (false, _) => Reason::Timeout,
            (true, false) => Reason::JobComplete,
            (true, true) => Reason::NothingPending,
        };
        let with = |wanted: &[JobState]| {
            let fits = self.over.iter().filter(|(_, state)| wanted.contains(state));
            fits.map(|(id, _)| *id).collect::<Vec<_>>()
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
