//! Jobs as a client follows them after its response: get, answer a question, cancel. Edges use this trait;
//! the job service implements it.
//!
//! A job of another caller is reported as not found.

use crate::request_context::RequestFuture;
use std::time::Duration;
use toolyard_protocol::{Id, Identity, InputRequest, Job, Outcome, Payload};

pub trait Tasks: Send + Sync {
    /// Whether calls can continue as jobs; edges advertise tasks only if so.
    fn is_available(&self) -> bool {
        true
    }

    fn get<'a>(&'a self, id: Id, identity: &'a Identity) -> RequestFuture<'a, Option<Task>>;

    /// Requests cancellation and stops the work; `false` when not found. A finished job is unchanged.
    fn cancel<'a>(&'a self, id: Id, identity: &'a Identity) -> RequestFuture<'a, bool>;

    /// Answers the questions with these keys, in MCP's JSON format; unknown keys are ignored. `false` when
    /// the job is not found.
    fn answer<'a>(
        &'a self,
        id: Id,
        identity: &'a Identity,
        answers: Vec<(String, Payload)>,
    ) -> RequestFuture<'a, bool>;

    /// Jobs whose state, questions or progress changed after the cursor; waits some seconds for the first.
    /// Without a cursor it returns the current one at once.
    fn wait_for_changes(&self, after: Option<u64>) -> RequestFuture<'_, TaskChanges>;
}

/// The changed jobs and the cursor to continue from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskChanges {
    pub cursor: u64,
    /// `None` when the cursor has expired: any job may have changed.
    pub jobs: Option<Vec<Id>>,
}

/// A job with its open questions, outcome and retention.
#[derive(Clone, Debug)]
pub struct Task {
    pub job: Job,
    /// Open questions, in `JobState::InputRequired`.
    pub questions: Vec<InputRequest>,
    /// Present when the job has finished.
    pub outcome: Option<Outcome>,
    /// How long the job is kept; `None` means forever.
    pub ttl: Option<Duration>,
    /// The interval at which clients should poll.
    pub poll_interval: Duration,
}

/// Jobs are not supported: every call is answered in its request.
pub struct NoTasks;

impl Tasks for NoTasks {
    fn is_available(&self) -> bool {
        false
    }

    fn get<'a>(&'a self, _: Id, _: &'a Identity) -> RequestFuture<'a, Option<Task>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn cancel<'a>(&'a self, _: Id, _: &'a Identity) -> RequestFuture<'a, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    fn answer<'a>(&'a self, _: Id, _: &'a Identity, _: Vec<(String, Payload)>) -> RequestFuture<'a, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    fn wait_for_changes(&self, _: Option<u64>) -> RequestFuture<'_, TaskChanges> {
        Box::pin(std::future::pending())
    }
}
