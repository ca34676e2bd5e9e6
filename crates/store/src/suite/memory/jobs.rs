//! Jobs in a map by id.

use super::{Memory, Tables};
use crate::job_rules;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use toolyard_engine::stores::{
    Created, Durability, JobEnd, JobFilter, JobStore, Lease, NewEvent, NewJob, Recovered, StoreError,
    StoreFuture, UpdateResult,
};
use toolyard_protocol::{Id, Identity, Job, JobState, Payload, Progress, Timestamp};

pub struct Jobs(pub Memory);

#[derive(Clone, Default)]
pub struct Table(BTreeMap<Id, JobRow>);

#[derive(Clone)]
struct JobRow {
    job: Job,
    owner: Id,
    fence: u64,
    ttl: Duration,
}

impl Tables {
    fn create(&mut self, new: NewJob) -> Result<Created, StoreError> {
        job_rules::check_new(&new)?;
        let same = |row: &&JobRow| {
            let job = &row.job;
            new.key.is_some() && job.key == new.key && job.tool == new.tool && job.identity == new.identity
        };
        if let Some(row) = self.jobs.0.values().find(same) {
            return Ok(Created::Existing(Box::new(row.job.clone())));
        }
        let open = || self.jobs.0.values().filter(|row| !row.job.state.is_finished());
        let of_caller = open().filter(|row| row.job.identity == new.identity).count();
        job_rules::check_open(&new, open().count() as u64, of_caller as u64)?;
        if self.jobs.0.contains_key(&new.id) {
            return job_rules::id_taken(new.id);
        }
        let lease = Lease { id: new.id, owner: new.owner, fence: 1 };
        self.append_state_event(new.id, &new.tool, new.state, new.now);
        self.jobs.0.insert(new.id, JobRow::new(new));
        Ok(Created::New(lease))
    }

    fn start(&mut self, lease: Lease, now: Timestamp) -> Result<UpdateResult, StoreError> {
        let Some(row) = self.jobs.for_lease(lease) else { return Ok(UpdateResult::LeaseLost) };
        if row.job.state != JobState::Pending {
            return job_rules::wrong_state(lease.id, row.job.state, "a pending job");
        }
        row.job.started = Some(now);
        row.job.attempt += 1;
        self.set_state(lease.id, JobState::Running, now);
        Ok(UpdateResult::Applied)
    }

    fn progress(
        &mut self,
        lease: Lease,
        progress: Progress,
        now: Timestamp,
    ) -> Result<UpdateResult, StoreError> {
        job_rules::check_progress(&progress)?;
        let Some(row) = self.jobs.for_lease(lease) else { return Ok(UpdateResult::LeaseLost) };
        let data = job_rules::progress(lease.id, &progress);
        row.job.progress = Some(progress);
        self.append_event(lease.id, job_rules::PROGRESS, data, now);
        Ok(UpdateResult::Applied)
    }

    fn set_waiting(
        &mut self,
        lease: Lease,
        waiting: bool,
        now: Timestamp,
    ) -> Result<UpdateResult, StoreError> {
        let Some(row) = self.jobs.for_lease(lease) else { return Ok(UpdateResult::LeaseLost) };
        let state = if waiting { JobState::InputRequired } else { JobState::Running };
        if row.job.state == JobState::Pending {
            return job_rules::wrong_state(lease.id, row.job.state, "a running job");
        }
        if row.job.state != state {
            self.set_state(lease.id, state, now);
        }
        Ok(UpdateResult::Applied)
    }

    fn finish(&mut self, lease: Lease, ending: JobEnd) -> Result<UpdateResult, StoreError> {
        job_rules::check_ending(&ending)?;
        let Some(row) = self.jobs.for_lease(lease) else { return Ok(UpdateResult::LeaseLost) };
        row.ttl = ending.ttl;
        row.job.outcome = ending.outcome;
        row.job.progress = ending.progress.or(row.job.progress.take());
        self.set_state(lease.id, ending.state, ending.now);
        Ok(UpdateResult::Applied)
    }

    fn give_back(&mut self, lease: Lease, has_run: bool, now: Timestamp) -> Result<UpdateResult, StoreError> {
        let Some(row) = self.jobs.for_lease(lease) else { return Ok(UpdateResult::LeaseLost) };
        if row.job.state != JobState::Pending {
            (row.job.started, row.job.progress) = (None, None);
            row.job.attempt -= u32::from(!has_run);
            self.set_state(lease.id, JobState::Pending, now);
        }
        Ok(UpdateResult::Applied)
    }

    fn cancel(&mut self, id: Id, now: Timestamp) -> Result<JobState, StoreError> {
        let Some(row) = self.jobs.0.get_mut(&id) else { return job_rules::job_not_found(id) };
        if row.job.state.is_finished() {
            return Ok(row.job.state);
        }
        row.job.cancel_requested = true;
        if row.job.state != JobState::Pending {
            return Ok(row.job.state);
        }
        self.set_state(id, JobState::Cancelled, now);
        Ok(JobState::Cancelled)
    }

    fn take_over(
        &mut self,
        (from, to): (Id, Id),
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Recovered>, StoreError> {
        job_rules::check_take_over(from, to)?;
        let held = |row: &&JobRow| row.owner == from && !row.job.state.is_finished();
        let ids: Vec<Id> = self.jobs.0.values().filter(held).map(|row| row.job.id).take(limit).collect();
        Ok(ids.into_iter().filter_map(|id| self.recover(id, to, now)).collect())
    }

    fn recover(&mut self, id: Id, to: Id, now: Timestamp) -> Option<Recovered> {
        let row = self.jobs.0.get_mut(&id)?;
        let was = row.job.state;
        if row.job.cancel_requested {
            self.set_state(id, JobState::Cancelled, now);
            return Some(Recovered::Ended(id, JobState::Cancelled));
        }
        if was != JobState::Pending && !row.job.repeatable {
            self.set_state(id, JobState::Unknown, now);
            return Some(Recovered::Ended(id, JobState::Unknown));
        }
        row.owner = to;
        row.fence += 1;
        row.job.started = None;
        row.job.progress = None;
        let lease = Lease { id, owner: to, fence: row.fence };
        if was != JobState::Pending {
            row.job.deaths.push(now);
            self.set_state(id, JobState::Pending, now);
        }
        Some(Recovered::Requeued(lease, Box::new(self.jobs.0.get(&id)?.job.clone())))
    }

    fn expire(&mut self, now: Timestamp, limit: usize) -> u64 {
        let due = |row: &JobRow| row.job.expires.filter(|&expires| expires <= now).map(|at| (at, row.job.id));
        let due: BTreeSet<(Timestamp, Id)> = self.jobs.0.values().filter_map(due).collect();
        due.iter().take(limit).filter(|(_, id)| self.jobs.0.remove(id).is_some()).count() as u64
    }

    /// Changes the state of a job and appends the event.
    fn set_state(&mut self, id: Id, state: JobState, now: Timestamp) {
        let Some(row) = self.jobs.0.get_mut(&id) else { return };
        row.job.state = state;
        if state.is_finished() {
            row.job.progress = job_rules::last_progress(state, row.job.progress.take());
            row.job.finished = Some(now);
            row.job.expires = Some(job_rules::expiry(now, row.ttl));
        }
        let tool = row.job.tool.clone();
        self.append_state_event(id, &tool, state, now);
    }

    fn append_state_event(&mut self, id: Id, tool: &str, state: JobState, now: Timestamp) {
        self.append_event(id, job_rules::STATE_CHANGED, job_rules::state_changed(id, tool, state), now);
    }

    fn append_event(&mut self, id: Id, kind: &str, data: Vec<u8>, at: Timestamp) {
        let (kind, subject) = (kind.to_owned(), Some(id.to_string()));
        self.events.append(NewEvent { at, kind, subject, data: Payload::json(data) });
    }
}

impl Table {
    /// The job of a valid lease.
    fn for_lease(&mut self, lease: Lease) -> Option<&mut JobRow> {
        let row = self.0.get_mut(&lease.id)?;
        let valid = !row.job.state.is_finished() && row.owner == lease.owner && row.fence == lease.fence;
        valid.then_some(row)
    }

    fn list(&self, filter: &JobFilter) -> Vec<Job> {
        let wanted = |job: &&Job| {
            filter.identity.as_ref().is_none_or(|identity| job.identity == *identity)
                && (filter.states.is_empty() || filter.states.contains(&job.state))
                && filter.tool.as_ref().is_none_or(|tool| job.tool == *tool)
                && filter.before.is_none_or(|before| job.id < before)
        };
        let newest_first = self.0.values().rev().map(|row| &row.job);
        let without_payloads = |job: &Job| {
            let arguments = Payload::new(job.arguments.format(), Vec::new());
            Job { arguments, outcome: None, ..job.clone() }
        };
        let shown = |job: &Job| if filter.is_summary { without_payloads(job) } else { job.clone() };
        newest_first.filter(wanted).take(filter.limit).map(shown).collect()
    }

    fn count(&self, identity: Option<&Identity>) -> Vec<(JobState, u64)> {
        let mut counts = BTreeMap::new();
        for row in self.0.values() {
            if identity.is_none_or(|identity| row.job.identity == *identity) {
                *counts.entry(row.job.state).or_default() += 1;
            }
        }
        counts.into_iter().collect()
    }
}

impl JobRow {
    fn new(new: NewJob) -> JobRow {
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
            deaths: Vec::new(),
            repeatable: new.repeatable,
            cancel_requested: false,
            key: new.key,
            trace: new.trace,
            expires: None,
        };
        JobRow { job, owner: new.owner, fence: 1, ttl: new.ttl }
    }
}

#[cfg(test)]
impl Jobs {
    /// The current lease of each job.
    pub fn leases(&self) -> Vec<Lease> {
        let tables = self.0.0.lock().unwrap();
        let lease = |row: &JobRow| Lease { id: row.job.id, owner: row.owner, fence: row.fence };
        tables.jobs.0.values().map(lease).collect()
    }
}

/// Nothing here outlives the process, so durability is ignored.
impl JobStore for Jobs {
    fn create(&self, new: NewJob) -> StoreFuture<'_, Created> {
        self.0.with(|tables| tables.create(new))
    }

    fn start(&self, lease: Lease, now: Timestamp, _: Durability) -> StoreFuture<'_, UpdateResult> {
        self.0.with(|tables| tables.start(lease, now))
    }

    fn progress(&self, lease: Lease, progress: Progress, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.0.with(|tables| tables.progress(lease, progress, now))
    }

    fn set_waiting(&self, lease: Lease, waiting: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.0.with(|tables| tables.set_waiting(lease, waiting, now))
    }

    fn finish(&self, lease: Lease, ending: JobEnd, _: Durability) -> StoreFuture<'_, UpdateResult> {
        self.0.with(|tables| tables.finish(lease, ending))
    }

    fn give_back(&self, lease: Lease, has_run: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.0.with(|tables| tables.give_back(lease, has_run, now))
    }

    fn cancel_requests(&self, owner: Id) -> StoreFuture<'_, Vec<Id>> {
        self.0.with(|tables| {
            let asked = |row: &&JobRow| {
                row.owner == owner && row.job.cancel_requested && !row.job.state.is_finished()
            };
            Ok(tables.jobs.0.values().filter(asked).map(|row| row.job.id).collect())
        })
    }

    fn cancel(&self, id: Id, now: Timestamp) -> StoreFuture<'_, JobState> {
        self.0.with(|tables| tables.cancel(id, now))
    }

    fn take_over(&self, from: Id, to: Id, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Recovered>> {
        self.0.with(|tables| tables.take_over((from, to), now, limit))
    }

    fn owners(&self) -> StoreFuture<'_, Vec<Id>> {
        self.0.with(|tables| {
            let open = tables.jobs.0.values().filter(|row| !row.job.state.is_finished());
            Ok(open.map(|row| row.owner).collect::<BTreeSet<_>>().into_iter().collect())
        })
    }

    fn get(&self, id: Id) -> StoreFuture<'_, Option<Job>> {
        self.0.with(|tables| Ok(tables.jobs.0.get(&id).map(|row| row.job.clone())))
    }

    fn list(&self, filter: JobFilter) -> StoreFuture<'_, Vec<Job>> {
        self.0.with(|tables| Ok(tables.jobs.list(&filter)))
    }

    fn count(&self, identity: Option<Identity>) -> StoreFuture<'_, Vec<(JobState, u64)>> {
        self.0.with(|tables| Ok(tables.jobs.count(identity.as_ref())))
    }

    fn expire(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, u64> {
        self.0.with(|tables| Ok(tables.expire(now, limit)))
    }
}
