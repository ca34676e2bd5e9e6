//! The job store: jobs are leased to one worker at a time, fenced, and deduplicated by key.

use super::{Durability, StoreFuture};
use std::time::Duration;
use toolyard_protocol::{Id, Identity, Job, JobState, Payload, Progress, Timestamp, Timing};

/// All changes of one job are ordered; a change with an expired lease does nothing and returns `LeaseLost`.
///
/// Each change of state appends a `job_state_changed` event, and each progress a `progress` event, in the
/// same transaction: `{"job_id", "tool", "state"}` and `{"job_id", "percent" (0 to 1), "message"}`, subject =
/// job id. A message of more than 1,024 bytes is cut in the event, not in the job.
pub trait JobStore: Send + Sync {
    /// Creates a job; it is on disk when this returns. An existing job with the same caller, tool and key is
    /// returned instead, even over the limits. An id that is already used is `Invalid`.
    fn create(&self, new: NewJob) -> StoreFuture<'_, Created>;

    /// `Pending` → `Running`, by the worker that holds the lease; a job that is already running is `Invalid`.
    fn start(&self, lease: Lease, now: Timestamp, durability: Durability) -> StoreFuture<'_, UpdateResult>;

    /// Replaces the earlier progress.
    fn progress(&self, lease: Lease, progress: Progress, now: Timestamp) -> StoreFuture<'_, UpdateResult>;

    /// `Running` ↔ `InputRequired`; the current state again changes nothing. A pending job is `Invalid`.
    fn set_waiting(&self, lease: Lease, waiting: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult>;

    /// Ends a job, also a pending one. Exactly one `finish` of a job ever takes effect. The progress of a
    /// complete job is its total, without a message.
    fn finish(&self, lease: Lease, ending: JobEnd, durability: Durability) -> StoreFuture<'_, UpdateResult>;

    /// Back to `Pending` under the same lease, without start time and progress: the worker stops, and the next
    /// one starts the job. Without `has_run` the last start does not count as one. A pending job is unchanged.
    fn give_back(&self, lease: Lease, has_run: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult>;

    /// Requests cancellation; on disk when it returns. A pending job ends as cancelled at once. Returns the
    /// new state; a finished job is unchanged, an unknown one is `NotFound`.
    fn cancel(&self, id: Id, now: Timestamp) -> StoreFuture<'_, JobState>;

    /// Takes over the jobs of a dead worker: pending and repeatable running jobs become `Pending` under a new
    /// lease of `to` with a higher fence; running ones that are not repeatable become `Unknown`; those with a
    /// cancel request become `Cancelled`. Oldest first, at most `limit` jobs; call again until none is
    /// returned. A requeued job has neither start time nor progress, and if it was running, one more entry in
    /// `deaths`. `from` and `to` must differ (`Invalid`).
    fn take_over(&self, from: Id, to: Id, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Recovered>>;

    /// The unfinished jobs of a worker whose cancellation was requested.
    fn cancel_requests(&self, owner: Id) -> StoreFuture<'_, Vec<Id>>;

    /// Workers that own unfinished jobs, sorted.
    fn owners(&self) -> StoreFuture<'_, Vec<Id>>;

    fn get(&self, id: Id) -> StoreFuture<'_, Option<Job>>;

    /// Newest first.
    fn list(&self, filter: JobFilter) -> StoreFuture<'_, Vec<Job>>;

    /// The number of a caller's jobs (`None`: all callers) in each state that occurs, in state order.
    fn count(&self, identity: Option<Identity>) -> StoreFuture<'_, Vec<(JobState, u64)>>;

    /// Removes expired jobs and returns their number. At most `limit`, the longest expired first.
    fn expire(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, u64>;
}

#[derive(Clone, Debug)]
pub struct NewJob {
    pub id: Id,
    pub tool: String,
    pub arguments: Payload,
    pub identity: Identity,
    pub timing: Timing,
    pub repeatable: bool,
    /// `Running` when the work starts as soon as the job is on disk, otherwise `Pending`; no other state.
    pub state: JobState,
    pub now: Timestamp,
    pub owner: Id,
    pub key: Option<String>,
    pub trace: Option<String>,
    /// The limit of unfinished jobs; beyond it the new job is refused (`StoreError::Bound`).
    pub max_open: u64,
    /// The same for this caller alone.
    pub max_open_of_caller: u64,
    /// How long the row is kept when the job ends without a `finish`: cancelled while pending, or orphaned.
    pub ttl: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    New(Lease),
    /// An existing job has the same key.
    Existing(Box<Job>),
}

/// The right to change one job. A higher fence revokes every lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub id: Id,
    pub owner: Id,
    pub fence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateResult {
    Applied,
    /// Another worker owns the job, or it has finished or been removed.
    LeaseLost,
}

#[derive(Clone, Debug)]
pub struct JobEnd {
    /// A finished state, otherwise `Invalid`.
    pub state: JobState,
    pub outcome: Option<Payload>,
    /// The last progress, unless it was written before.
    pub progress: Option<Progress>,
    pub now: Timestamp,
    /// How long the row is kept after `now`.
    pub ttl: Duration,
}

#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    pub identity: Option<Identity>,
    pub states: Vec<JobState>,
    pub tool: Option<String>,
    /// Only jobs older than this one.
    pub before: Option<Id>,
    pub limit: usize,
    /// Without arguments and outcomes, which may be large.
    pub is_summary: bool,
}

/// The result of taking over a job whose worker died.
#[derive(Clone, Debug, PartialEq)]
pub enum Recovered {
    /// To be run again by the new owner.
    Requeued(Lease, Box<Job>),
    Ended(Id, JobState),
}
