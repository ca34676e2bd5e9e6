//! Jobs as a store keeps them: leased to one worker at a time, fenced, deduplicated by key.

use super::{Durability, StoreFuture};
use std::time::Duration;
use toolyard_protocol::{Id, Identity, Job, JobState, Payload, Progress, Timestamp, Timing};

/// All changes of one job are ordered; a change with a lease that is no longer in force does nothing and says so.
///
/// Each change of state appends a `job_state_changed` event, and each progress a `progress` event, in the same
/// transaction: `{"job_id", "tool", "state"}` and `{"job_id", "percent" (0 to 1), "message"}`, subject = job id.
/// A message of more than 1,024 bytes is cut in the event, not in the job.
pub trait JobStore: Send + Sync {
    /// Keeps a new job, on disk when the reply comes. A job of the same caller, tool and key is given back instead,
    /// whatever the bounds say. An id that is taken is `Invalid`.
    fn create(&self, new: NewJob) -> StoreFuture<'_, Created>;

    /// `Pending` → `Running`, by the worker that holds the lease; a job that runs already is `Invalid`.
    fn start(&self, lease: Lease, now: Timestamp, durability: Durability) -> StoreFuture<'_, UpdateResult>;

    /// Replaces what was said before.
    fn progress(&self, lease: Lease, progress: Progress, now: Timestamp) -> StoreFuture<'_, UpdateResult>;

    /// `Running` ↔ `InputRequired`; the state it has already is no change. A pending job is `Invalid`.
    fn set_waiting(&self, lease: Lease, waiting: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult>;

    /// The end, of a pending job too. Exactly one `finish` of a job ever takes effect.
    fn finish(&self, lease: Lease, ending: JobEnd, durability: Durability) -> StoreFuture<'_, UpdateResult>;

    /// Marks the wish. A pending job ends as cancelled at once. Gives the state after; a job that is over stays as it
    /// is, one that does not exist is `NotFound`. On disk when the reply comes.
    fn cancel(&self, id: Id, now: Timestamp) -> StoreFuture<'_, JobState>;

    /// Takes over what a dead worker held: pending jobs and repeatable running ones become `Pending` under a new
    /// lease of `to` with a higher fence; running ones that are not repeatable become `Unknown`; those with a cancel
    /// wish become `Cancelled`. Oldest first, at most `limit` jobs; call again until none comes. A job to be run again
    /// has neither start nor progress. Taking over from oneself is `Invalid`.
    fn take_over(&self, from: Id, to: Id, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Recovered>>;

    /// Workers that hold jobs which are not over, sorted.
    fn owners(&self) -> StoreFuture<'_, Vec<Id>>;

    fn get(&self, id: Id) -> StoreFuture<'_, Option<Job>>;

    /// Newest first.
    fn list(&self, filter: JobFilter) -> StoreFuture<'_, Vec<Job>>;

    /// How many of a caller's jobs (of all callers without one) are in each state that occurs, in the states' order.
    fn count(&self, identity: Option<Identity>) -> StoreFuture<'_, Vec<(JobState, u64)>>;

    /// Removes jobs that are over and whose time has come; gives how many. At most `limit`, the longest due first.
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
    /// `Running` when the work starts as soon as the job is on disk, else `Pending`; no other.
    pub state: JobState,
    pub now: Timestamp,
    pub owner: Id,
    pub key: Option<String>,
    pub trace: Option<String>,
    /// Jobs that are not over; over this the new one is refused (`StoreError::Bound`).
    pub max_open: u64,
    /// The same for this caller alone.
    pub max_open_of_caller: u64,
    /// How long the row is kept when the job ends without a `finish`: cancelled while pending, or with its worker.
    pub ttl: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    New(Lease),
    /// The job that this key already has.
    Existing(Box<Job>),
}

/// The right to change one job. A higher fence ends every lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub id: Id,
    pub owner: Id,
    pub fence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateResult {
    Applied,
    /// Another worker has the job, it is over, or it is gone.
    LeaseLost,
}

#[derive(Clone, Debug)]
pub struct JobEnd {
    /// One of the states that are over, else `Invalid`.
    pub state: JobState,
    pub outcome: Option<Payload>,
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
}

/// What became of a job whose worker died.
#[derive(Clone, Debug, PartialEq)]
pub enum Recovered {
    /// To be run again, by whoever took over.
    Requeued(Lease, Box<Job>),
    Ended(Id, JobState),
}
