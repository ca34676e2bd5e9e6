//! Jobs in a map by id.

use super::{Memory, Tables};
use crate::stores::{
    Change, Created, Durability, Ending, JobFilter, JobStore, Lease, NewEvent, NewJob, Recovered, Reply,
    StoreError, notice,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use toolyard_protocol::{Id, Identity, Job, JobState, Payload, Progress, Timestamp};

pub struct Jobs(pub Memory);

#[derive(Clone, Default)]
pub struct Table(BTreeMap<Id, Kept>);

#[derive(Clone)]
struct Kept {
    job: Job,
    owner: Id,
    fence: u64,
    ttl: Duration,
}

impl Tables {
    fn create(&mut self, new: NewJob) -> Result<Created, StoreError> {
        notice::check_new(&new)?;
        let same = |kept: &&Kept| {
            let job = &kept.job;
            new.key.is_some() && job.key == new.key && job.tool == new.tool && job.identity == new.identity
        };
        if let Some(kept) = self.jobs.0.values().find(same) {
            return Ok(Created::Existing(Box::new(kept.job.clone())));
        }
        let open = || self.jobs.0.values().filter(|kept| !kept.job.state.is_over());
        let of_caller = open().filter(|kept| kept.job.identity == new.identity).count();
        notice::check_open(&new, open().count() as u64, of_caller as u64)?;
        if self.jobs.0.contains_key(&new.id) {
            return notice::taken(new.id);
        }
        let lease = Lease { id: new.id, owner: new.owner, fence: 1 };
        self.say(new.id, &new.tool, new.state, new.now);
        self.jobs.0.insert(new.id, Kept::new(new));
        Ok(Created::New(lease))
    }

    fn start(&mut self, lease: Lease, now: Timestamp) -> Result<Change, StoreError> {
        let Some(kept) = self.jobs.under(lease) else { return Ok(Change::LeaseLost) };
        if kept.job.state != JobState::Pending {
            return notice::wrong_state(lease.id, kept.job.state, "a pending job");
        }
        kept.job.started = Some(now);
        kept.job.attempt += 1;
        self.turn(lease.id, JobState::Running, now);
        Ok(Change::Made)
    }

    fn progress(&mut self, lease: Lease, progress: Progress, now: Timestamp) -> Result<Change, StoreError> {
        notice::check_progress(&progress)?;
        let Some(kept) = self.jobs.under(lease) else { return Ok(Change::LeaseLost) };
        let data = notice::progress(lease.id, &progress);
        kept.job.progress = Some(progress);
        self.tell(lease.id, notice::PROGRESS, data, now);
        Ok(Change::Made)
    }

    fn waiting(&mut self, lease: Lease, waiting: bool, now: Timestamp) -> Result<Change, StoreError> {
        let Some(kept) = self.jobs.under(lease) else { return Ok(Change::LeaseLost) };
        let state = if waiting { JobState::InputRequired } else { JobState::Running };
        if kept.job.state == JobState::Pending {
            return notice::wrong_state(lease.id, kept.job.state, "a running job");
        }
        if kept.job.state != state {
            self.turn(lease.id, state, now);
        }
        Ok(Change::Made)
    }

    fn finish(&mut self, lease: Lease, ending: Ending) -> Result<Change, StoreError> {
        notice::check_ending(&ending)?;
        let Some(kept) = self.jobs.under(lease) else { return Ok(Change::LeaseLost) };
        kept.ttl = ending.ttl;
        kept.job.outcome = ending.outcome;
        self.turn(lease.id, ending.state, ending.now);
        Ok(Change::Made)
    }

    fn cancel(&mut self, id: Id, now: Timestamp) -> Result<JobState, StoreError> {
        let Some(kept) = self.jobs.0.get_mut(&id) else { return notice::no_job(id) };
        if kept.job.state.is_over() {
            return Ok(kept.job.state);
        }
        kept.job.cancel_requested = true;
        if kept.job.state != JobState::Pending {
            return Ok(kept.job.state);
        }
        self.turn(id, JobState::Cancelled, now);
        Ok(JobState::Cancelled)
    }

    fn take_over(
        &mut self,
        (from, to): (Id, Id),
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Recovered>, StoreError> {
        notice::check_take_over(from, to)?;
        let held = |kept: &&Kept| kept.owner == from && !kept.job.state.is_over();
        let ids: Vec<Id> = self.jobs.0.values().filter(held).map(|kept| kept.job.id).take(limit).collect();
        Ok(ids.into_iter().filter_map(|id| self.recover(id, to, now)).collect())
    }

    fn recover(&mut self, id: Id, to: Id, now: Timestamp) -> Option<Recovered> {
        let kept = self.jobs.0.get_mut(&id)?;
        let was = kept.job.state;
        if kept.job.cancel_requested {
            self.turn(id, JobState::Cancelled, now);
            return Some(Recovered::Over(id, JobState::Cancelled));
        }
        if was != JobState::Pending && !kept.job.repeatable {
            self.turn(id, JobState::Unknown, now);
            return Some(Recovered::Over(id, JobState::Unknown));
        }
        kept.owner = to;
        kept.fence += 1;
        kept.job.started = None;
        kept.job.progress = None;
        let lease = Lease { id, owner: to, fence: kept.fence };
        if was != JobState::Pending {
            self.turn(id, JobState::Pending, now);
        }
        Some(Recovered::Again(lease, Box::new(self.jobs.0.get(&id)?.job.clone())))
    }

    fn expire(&mut self, now: Timestamp, limit: usize) -> u64 {
        let due =
            |kept: &Kept| kept.job.expires.filter(|&expires| expires <= now).map(|at| (at, kept.job.id));
        let due: BTreeSet<(Timestamp, Id)> = self.jobs.0.values().filter_map(due).collect();
        due.iter().take(limit).filter(|(_, id)| self.jobs.0.remove(id).is_some()).count() as u64
    }

    /// Puts a job into another state and says so.
    fn turn(&mut self, id: Id, state: JobState, now: Timestamp) {
        let Some(kept) = self.jobs.0.get_mut(&id) else { return };
        kept.job.state = state;
        if state.is_over() {
            kept.job.finished = Some(now);
            kept.job.expires = Some(notice::expiry(now, kept.ttl));
        }
        let tool = kept.job.tool.clone();
        self.say(id, &tool, state, now);
    }

    fn say(&mut self, id: Id, tool: &str, state: JobState, now: Timestamp) {
        self.tell(id, notice::STATE_CHANGED, notice::state_changed(id, tool, state), now);
    }

    fn tell(&mut self, id: Id, kind: &str, data: Vec<u8>, at: Timestamp) {
        let (kind, subject) = (kind.to_owned(), Some(id.to_string()));
        self.events.append(NewEvent { at, kind, subject, data: Payload::json(data) });
    }
}

impl Table {
    /// The job of a lease that is in force.
    fn under(&mut self, lease: Lease) -> Option<&mut Kept> {
        let kept = self.0.get_mut(&lease.id)?;
        let in_force = !kept.job.state.is_over() && kept.owner == lease.owner && kept.fence == lease.fence;
        in_force.then_some(kept)
    }

    fn list(&self, filter: &JobFilter) -> Vec<Job> {
        let wanted = |job: &&Job| {
            filter.identity.as_ref().is_none_or(|identity| job.identity == *identity)
                && (filter.states.is_empty() || filter.states.contains(&job.state))
                && filter.tool.as_ref().is_none_or(|tool| job.tool == *tool)
                && filter.before.is_none_or(|before| job.id < before)
        };
        let newest_first = self.0.values().rev().map(|kept| &kept.job);
        newest_first.filter(wanted).take(filter.limit).cloned().collect()
    }

    fn count(&self, identity: Option<&Identity>) -> Vec<(JobState, u64)> {
        let mut counts = BTreeMap::new();
        for kept in self.0.values() {
            if identity.is_none_or(|identity| kept.job.identity == *identity) {
                *counts.entry(kept.job.state).or_default() += 1;
            }
        }
        counts.into_iter().collect()
    }
}

impl Kept {
    fn new(new: NewJob) -> Kept {
        let running = new.state == JobState::Running;
        let job = Job {
            id: new.id,
            tool: new.tool,
            arguments: new.arguments,
            identity: new.identity,
            timing: new.timing,
            state: new.state,
            progress: None,
            outcome: None,
            created: new.now,
            started: running.then_some(new.now),
            finished: None,
            attempt: u32::from(running),
            repeatable: new.repeatable,
            cancel_requested: false,
            key: new.key,
            trace: new.trace,
            expires: None,
        };
        Kept { job, owner: new.owner, fence: 1, ttl: new.ttl }
    }
}

#[cfg(test)]
impl Jobs {
    /// The lease in force of each job.
    pub fn leases(&self) -> Vec<Lease> {
        let tables = self.0.0.lock().unwrap();
        let lease = |kept: &Kept| Lease { id: kept.job.id, owner: kept.owner, fence: kept.fence };
        tables.jobs.0.values().map(lease).collect()
    }
}

/// Nothing here outlives the process, so durability changes nothing.
impl JobStore for Jobs {
    fn create(&self, new: NewJob) -> Reply<'_, Created> {
        self.0.with(|tables| tables.create(new))
    }

    fn start(&self, lease: Lease, now: Timestamp, _: Durability) -> Reply<'_, Change> {
        self.0.with(|tables| tables.start(lease, now))
    }

    fn progress(&self, lease: Lease, progress: Progress, now: Timestamp) -> Reply<'_, Change> {
        self.0.with(|tables| tables.progress(lease, progress, now))
    }

    fn waiting(&self, lease: Lease, waiting: bool, now: Timestamp) -> Reply<'_, Change> {
        self.0.with(|tables| tables.waiting(lease, waiting, now))
    }

    fn finish(&self, lease: Lease, ending: Ending, _: Durability) -> Reply<'_, Change> {
        self.0.with(|tables| tables.finish(lease, ending))
    }

    fn cancel(&self, id: Id, now: Timestamp) -> Reply<'_, JobState> {
        self.0.with(|tables| tables.cancel(id, now))
    }

    fn take_over(&self, from: Id, to: Id, now: Timestamp, limit: usize) -> Reply<'_, Vec<Recovered>> {
        self.0.with(|tables| tables.take_over((from, to), now, limit))
    }

    fn owners(&self) -> Reply<'_, Vec<Id>> {
        self.0.with(|tables| {
            let open = tables.jobs.0.values().filter(|kept| !kept.job.state.is_over());
            Ok(open.map(|kept| kept.owner).collect::<BTreeSet<_>>().into_iter().collect())
        })
    }

    fn get(&self, id: Id) -> Reply<'_, Option<Job>> {
        self.0.with(|tables| Ok(tables.jobs.0.get(&id).map(|kept| kept.job.clone())))
    }

    fn list(&self, filter: JobFilter) -> Reply<'_, Vec<Job>> {
        self.0.with(|tables| Ok(tables.jobs.list(&filter)))
    }

    fn count(&self, identity: Option<Identity>) -> Reply<'_, Vec<(JobState, u64)>> {
        self.0.with(|tables| Ok(tables.jobs.count(identity.as_ref())))
    }

    fn expire(&self, now: Timestamp, limit: usize) -> Reply<'_, u64> {
        self.0.with(|tables| Ok(tables.expire(now, limit)))
    }
}
