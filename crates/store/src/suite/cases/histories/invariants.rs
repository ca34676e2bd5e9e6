//! The observable state of the stores, and its invariants, independent of the model.

use super::operation::{Answer, Operation};
use std::collections::{BTreeMap, BTreeSet};
use toolyard_engine::stores::{
    Created, EventPage, EventQuery, EventStore, JobFilter, JobStore, Lease, Recovered, StoreError,
    UpdateResult,
};
use toolyard_protocol::{Id, Identity, Job, JobState, Timestamp};

/// All jobs and events, as queries return them.
#[derive(Debug, PartialEq)]
pub struct StoreSnapshot {
    pub jobs: BTreeMap<Id, Job>,
    pub events: EventPage,
}

/// The rest of the state, compared less often.
#[derive(Debug, PartialEq)]
pub struct StoreCounts {
    /// The lease of each job, which no query of the stores returns.
    leases: Vec<Lease>,
    owners: Vec<Id>,
    all: Vec<(JobState, u64)>,
    anna: Vec<(JobState, u64)>,
}

impl StoreSnapshot {
    pub async fn of(jobs: &dyn JobStore, events: &dyn EventStore) -> Result<StoreSnapshot, StoreError> {
        let all = JobFilter { limit: 10_000, ..JobFilter::default() };
        let since = Some(Timestamp::from_unix_ms(0));
        let all_events = EventQuery { since, limit: 10_000, ..EventQuery::default() };
        let jobs = jobs.list(all).await?.into_iter().map(|job| (job.id, job)).collect();
        Ok(StoreSnapshot { jobs, events: events.read(all_events).await? })
    }
}

impl StoreCounts {
    pub async fn of(jobs: &dyn JobStore, leases: Vec<Lease>) -> Result<StoreCounts, StoreError> {
        Ok(StoreCounts {
            leases,
            owners: jobs.owners().await?,
            all: jobs.count(None).await?,
            anna: jobs.count(Some(Identity::new("anna"))).await?,
        })
    }
}

/// Checks one history without the model.
#[derive(Default)]
pub struct InvariantChecker {
    before: Option<StoreSnapshot>,
    finished: BTreeSet<Id>,
    fences: BTreeMap<Id, u64>,
}

impl InvariantChecker {
    /// An answered operation: exactly one finish takes effect, and fences rise.
    pub fn observe(&mut self, operation: &Operation, answer: &Answer) {
        if let (Operation::Finish(lease, ..), Answer::Changed(UpdateResult::Applied)) = (operation, answer) {
            assert!(self.finished.insert(lease.id), "{} was finished twice", lease.id);
        }
        let leases = match answer {
            Answer::Created(Created::New(lease)) => vec![*lease],
            Answer::Recovered(recovered) => recovered
                .iter()
                .filter_map(|one| if let Recovered::Requeued(lease, _) = one { Some(*lease) } else { None })
                .collect(),
            _ => Vec::new(),
        };
        for lease in leases {
            let last = self.fences.insert(lease.id, lease.fence);
            assert!(
                last < Some(lease.fence),
                "the fence of {} went from {last:?} to {}",
                lease.id,
                lease.fence
            );
        }
    }

    /// After a group: no job vanished early, no ended job changed, no event is missing or rewritten.
    pub fn check_group(&mut self, now: StoreSnapshot, group: &[Operation]) {
        let numbers: Vec<u64> = now.events.events.iter().map(|event| event.seq).collect();
        let expected: Vec<u64> = (now.events.oldest.max(1)..=now.events.newest).collect();
        assert_eq!(numbers, expected, "events have gaps");
        if let Some(before) = &self.before {
            let expired = group.iter().filter_map(|operation| match operation {
                Operation::Expire(now, _) => Some(*now),
                _ => None,
            });
            let expired = expired.max();
            for (id, job) in &before.jobs {
                match now.jobs.get(id) {
                    None => assert!(expired >= job.expires && expired.is_some(), "{id} vanished"),
                    Some(now) if job.state.is_finished() => {
                        assert_eq!(now, job, "{id} changed after its end")
                    }
                    Some(now) => {
                        // A start that was given back does not count.
                        let is_given_back = |operation: &&Operation| matches!(operation, Operation::GiveBack(lease, false, _) if lease.id == *id);
                        let given_back = group.iter().filter(is_given_back).count() as u32;
                        assert!(
                            now.attempt + given_back >= job.attempt,
                            "{id} has fewer attempts than before"
                        );
                    }
                }
            }
            assert!(now.events.newest >= before.events.newest, "events were taken back");
            for event in &before.events.events {
                let same = now.events.events.iter().find(|other| other.seq == event.seq);
                assert!(same.is_none_or(|same| same == event), "event {} was rewritten", event.seq);
            }
        }
        self.before = Some(now);
    }

    /// Starts afresh: a power cut may lose what was not synced.
    pub fn reset(&mut self) {
        *self = InvariantChecker::default();
    }
}
