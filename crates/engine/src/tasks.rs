//! Jobs as a client follows them after its answer: look, answer a question, cancel. Edges see this trait; the jobs
//! service stands behind it.
//!
//! A job of another caller is as if it were not there.

use crate::request_context::RequestFuture;
use std::time::Duration;
use toolyard_protocol::{Id, Identity, InputRequest, Job, Outcome, Payload};

pub trait Tasks: Send + Sync {
    /// Whether calls can go on as jobs; an edge without them does not advertise tasks.
    fn is_available(&self) -> bool {
        true
    }

    fn get<'a>(&'a self, id: Id, identity: &'a Identity) -> RequestFuture<'a, Option<Task>>;

    /// Marks the wish and stops the work; `false` when there is no such job. A job that is over stays as it is.
    fn cancel<'a>(&'a self, id: Id, identity: &'a Identity) -> RequestFuture<'a, bool>;

    /// Hands answers to the questions with these keys, as JSON in MCP's shape; keys that nobody asked for are left
    /// aside. `false` when there is no such job.
    fn answer<'a>(
        &'a self,
        id: Id,
        identity: &'a Identity,
        answers: Vec<(String, Payload)>,
    ) -> RequestFuture<'a, bool>;

    /// Jobs whose state, questions or progress changed after the cursor; waits for one, some seconds at most. Without
    /// a cursor it gives the one of now at once.
    fn wait_for_changes(&self, after: Option<u64>) -> RequestFuture<'_, TaskChanges>;
}

/// What changed, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskChanges {
    pub cursor: u64,
    /// `None` when it is no longer known: then any may have.
    pub jobs: Option<Vec<Id>>,
}

/// A job with what a client may want to know besides its row.
#[derive(Clone, Debug)]
pub struct Task {
    pub job: Job,
    /// What it waits for, in `JobState::InputRequired`.
    pub questions: Vec<InputRequest>,
    /// The end, in `Complete` and `Failed`.
    pub outcome: Option<Outcome>,
    /// How long a finished job is kept; none means for ever.
    pub ttl: Option<Duration>,
    /// How often it is worth asking.
    pub poll_interval: Duration,
}

/// No jobs: every call is answered in its request.
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
