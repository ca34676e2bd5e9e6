//! One operation on the stores, and its answer.

use toolyard_engine::stores::{
    Created, Durability, EventStore, JobEnd, JobStore, Lease, NewEvent, NewJob, Recovered, StoreError,
    UpdateResult,
};
use toolyard_protocol::{Id, JobState, Progress, Timestamp};

#[derive(Clone, Debug)]
pub enum Operation {
    Create(NewJob),
    Start(Lease, Timestamp, Durability),
    Progress(Lease, Progress, Timestamp),
    Waiting(Lease, bool, Timestamp),
    Finish(Lease, JobEnd, Durability),
    GiveBack(Lease, bool, Timestamp),
    Cancel(Id, Timestamp),
    TakeOver(Id, Id, Timestamp, usize),
    Expire(Timestamp, usize),
    Append(NewEvent),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Created(Created),
    Changed(UpdateResult),
    State(JobState),
    Recovered(Vec<Recovered>),
    Expired(u64),
    Appended(u64),
}

impl Operation {
    /// Whether this answer promises that a change survives a power cut. A repeated cancel writes nothing.
    pub fn promises(&self, answer: &Answer) -> bool {
        match (self, answer) {
            (Operation::Create(_), Answer::Created(Created::New(_))) => true,
            (
                Operation::Start(.., durability) | Operation::Finish(.., durability),
                Answer::Changed(change),
            ) => *durability == Durability::Synced && *change == UpdateResult::Applied,
            _ => false,
        }
    }

    pub async fn run(self, jobs: &dyn JobStore, events: &dyn EventStore) -> Result<Answer, StoreError> {
        match self {
            Operation::Create(new) => jobs.create(new).await.map(Answer::Created),
            Operation::Start(lease, now, durability) => {
                jobs.start(lease, now, durability).await.map(Answer::Changed)
            }
            Operation::Progress(lease, progress, now) => {
                jobs.progress(lease, progress, now).await.map(Answer::Changed)
            }
            Operation::Waiting(lease, waiting, now) => {
                jobs.set_waiting(lease, waiting, now).await.map(Answer::Changed)
            }
            Operation::Finish(lease, ending, durability) => {
                jobs.finish(lease, ending, durability).await.map(Answer::Changed)
            }
            Operation::GiveBack(lease, has_run, now) => {
                jobs.give_back(lease, has_run, now).await.map(Answer::Changed)
            }
            Operation::Cancel(id, now) => jobs.cancel(id, now).await.map(Answer::State),
            Operation::TakeOver(from, to, now, limit) => {
                jobs.take_over(from, to, now, limit).await.map(Answer::Recovered)
            }
            Operation::Expire(now, limit) => jobs.expire(now, limit).await.map(Answer::Expired),
            Operation::Append(event) => events.append(vec![event]).await.map(Answer::Appended),
        }
    }
}
