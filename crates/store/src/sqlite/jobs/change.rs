//! Updates of one job with their events, within the caller's transaction.
//!
//! All checks come before the first write, because updates run without a savepoint.

use super::TxEffects;
use super::row::{self, LeaseRow, state_code, timing_code};
use crate::job_rules;
use crate::sqlite::columns::{format_code, number, read_id};
use crate::sqlite::error::SqliteError;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use toolyard_engine::stores::{Created, JobEnd, Lease, NewJob, StoreError, UpdateResult};
use toolyard_protocol::{Format, Id, JobState, Payload, Progress, Timestamp};

pub fn create(connection: &Connection, effects: &TxEffects, new: &NewJob) -> Result<Created, SqliteError> {
    job_rules::check_new(new)?;
    if let Some(key) = &new.key {
        let mut same =
            connection.prepare_cached("SELECT id FROM job WHERE identity = ?1 AND tool = ?2 AND key = ?3")?;
        let id = same.query_row([new.identity.as_str(), &new.tool, key], |row| read_id(row, 0)).optional()?;
        if let Some(id) = id {
            return match row::get(connection, id)? {
                Some(job) => Ok(Created::Existing(Box::new(job))),
                None => Err(StoreError::Broken(format!("the index refers to missing job {id}")).into()),
            };
        }
    }
    let (open, open_of_caller) = effects.counts.open(connection, new.identity.as_str())?;
    job_rules::check_open(new, open, open_of_caller)?;
    insert(connection, new)?;
    effects.counts.record_transition(new.identity.as_str(), None, Some(new.state));
    append_state_event(connection, effects, new.id, &new.tool, (new.state, new.now))?;
    Ok(Created::New(Lease { id: new.id, owner: new.owner, fence: 1 }))
}

pub fn start(
    connection: &Connection,
    effects: &TxEffects,
    lease: Lease,
    now: Timestamp,
) -> Result<UpdateResult, SqliteError> {
    let Some(job) = LeaseRow::for_lease(connection, lease)? else { return Ok(UpdateResult::LeaseLost) };
    if job.state != JobState::Pending {
        return Ok(job_rules::wrong_state(lease.id, job.state, "a pending job")?);
    }
    let sql = "UPDATE job SET state = 1, started = ?2, attempt = attempt + 1 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![lease.id.as_bytes(), number(now.unix_ms())])?;
    record_transition(connection, effects, lease.id, &job, (JobState::Running, now))
}

pub fn progress(
    connection: &Connection,
    effects: &TxEffects,
    lease: Lease,
    progress: &Progress,
    now: Timestamp,
) -> Result<UpdateResult, SqliteError> {
    job_rules::check_progress(progress)?;
    if LeaseRow::for_lease(connection, lease)?.is_none() {
        return Ok(UpdateResult::LeaseLost);
    }
    let sql = "UPDATE job SET progress_done = ?2, progress_total = ?3, progress_message = ?4 WHERE id = ?1";
    let values = params![lease.id.as_bytes(), progress.done, progress.total, progress.message];
    connection.prepare_cached(sql)?.execute(values)?;
    let data = job_rules::progress(lease.id, progress);
    let subject = lease.id.text();
    effects.log.append(
        connection,
        now,
        job_rules::PROGRESS,
        Some(subject.as_str()),
        (Format::Json, &data),
    )?;
    Ok(UpdateResult::Applied)
}

pub fn set_waiting(
    connection: &Connection,
    effects: &TxEffects,
    lease: Lease,
    waiting: bool,
    now: Timestamp,
) -> Result<UpdateResult, SqliteError> {
    let Some(job) = LeaseRow::for_lease(connection, lease)? else { return Ok(UpdateResult::LeaseLost) };
    let state = if waiting { JobState::InputRequired } else { JobState::Running };
    if job.state == JobState::Pending {
        return Ok(job_rules::wrong_state(lease.id, job.state, "a running job")?);
    }
    if job.state == state {
        return Ok(UpdateResult::Applied);
    }
    let mut update = connection.prepare_cached("UPDATE job SET state = ?2 WHERE id = ?1")?;
    update.execute(params![lease.id.as_bytes(), state_code(state)])?;
    record_transition(connection, effects, lease.id, &job, (state, now))
}

pub fn finish(
    connection: &Connection,
    effects: &TxEffects,
    lease: Lease,
    ending: &JobEnd,
) -> Result<UpdateResult, SqliteError> {
    job_rules::check_ending(ending)?;
    let Some(job) = LeaseRow::for_lease(connection, lease)? else { return Ok(UpdateResult::LeaseLost) };
    let known = match &ending.progress {
        Some(progress) => Some(progress.clone()),
        None => job.progress.clone(),
    };
    let expires = job_rules::expiry(ending.now, ending.ttl);
    end(connection, lease.id, (ending.state, ending.now, expires), (known, ending.outcome.as_ref()))?;
    record_transition(connection, effects, lease.id, &job, (ending.state, ending.now))
}

pub fn give_back(
    connection: &Connection,
    effects: &TxEffects,
    lease: Lease,
    has_run: bool,
    now: Timestamp,
) -> Result<UpdateResult, SqliteError> {
    let Some(job) = LeaseRow::for_lease(connection, lease)? else { return Ok(UpdateResult::LeaseLost) };
    if job.state == JobState::Pending {
        return Ok(UpdateResult::Applied);
    }
    let sql = "UPDATE job SET state = 0, started = NULL, attempt = attempt - ?2, progress_done = NULL,
        progress_total = NULL, progress_message = NULL WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![lease.id.as_bytes(), !has_run])?;
    record_transition(connection, effects, lease.id, &job, (JobState::Pending, now))
}

pub fn cancel(
    connection: &Connection,
    effects: &TxEffects,
    id: Id,
    now: Timestamp,
) -> Result<JobState, SqliteError> {
    let Some(job) = LeaseRow::load(connection, id)? else { return Ok(job_rules::job_not_found(id)?) };
    if job.state.is_finished() {
        return Ok(job.state);
    }
    let mut request = connection.prepare_cached("UPDATE job SET cancel_requested = 1 WHERE id = ?1")?;
    request.execute([id.as_bytes()])?;
    if job.state != JobState::Pending {
        return Ok(job.state);
    }
    end_without_outcome(connection, effects, id, &job, (JobState::Cancelled, now))?;
    Ok(JobState::Cancelled)
}

/// Ends a job that no worker finished.
pub fn end_without_outcome(
    connection: &Connection,
    effects: &TxEffects,
    id: Id,
    job: &LeaseRow,
    (state, now): (JobState, Timestamp),
) -> Result<UpdateResult, SqliteError> {
    end(connection, id, (state, now, job_rules::expiry(now, job.ttl)), (job.progress.clone(), None))?;
    record_transition(connection, effects, id, job, (state, now))
}

/// Updates the counts and appends the event for a change from `job.state` to `state`.
pub fn record_transition(
    connection: &Connection,
    effects: &TxEffects,
    id: Id,
    job: &LeaseRow,
    (state, now): (JobState, Timestamp),
) -> Result<UpdateResult, SqliteError> {
    effects.counts.record_transition(&job.identity, Some(job.state), Some(state));
    append_state_event(connection, effects, id, &job.tool, (state, now))?;
    Ok(UpdateResult::Applied)
}

fn insert(connection: &Connection, new: &NewJob) -> Result<(), SqliteError> {
    let running = new.state == JobState::Running;
    let now = number(new.now.unix_ms());
    let sql = "INSERT INTO job (id, tool, identity, state, owner, fence, timing, repeatable, cancel_requested, attempt,
            created, started, ttl, key, trace, arguments_format, arguments)
        VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, 0, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
    let values = params![
        new.id.as_bytes(),
        new.tool,
        new.identity.as_str(),
        state_code(new.state),
        new.owner.as_bytes(),
        timing_code(new.timing),
        new.repeatable,
        running,
        now,
        running.then_some(now),
        i64::try_from(new.ttl.as_millis()).unwrap_or(i64::MAX),
        new.key,
        new.trace,
        format_code(new.arguments.format()),
        &new.arguments.bytes()[..],
    ];
    match connection.prepare_cached(sql)?.execute(values) {
        Ok(_) => Ok(()),
        // The key was checked in this transaction, so the conflict is the id.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Ok(job_rules::id_taken(new.id)?)
        }
        Err(error) => Err(error.into()),
    }
}

fn end(
    connection: &Connection,
    id: Id,
    (state, now, expires): (JobState, Timestamp, Timestamp),
    (progress, outcome): (Option<Progress>, Option<&Payload>),
) -> rusqlite::Result<()> {
    let sql = "UPDATE job SET state = ?2, finished = ?3, expires = ?4, outcome_format = ?5, outcome = ?6,
        progress_done = ?7, progress_total = ?8, progress_message = ?9 WHERE id = ?1";
    let progress = job_rules::last_progress(state, progress);
    let progress = progress.as_ref();
    connection.prepare_cached(sql)?.execute(params![
        id.as_bytes(),
        state_code(state),
        number(now.unix_ms()),
        number(expires.unix_ms()),
        outcome.map(|outcome| format_code(outcome.format())),
        outcome.map(|outcome| &outcome.bytes()[..]),
        progress.map(|progress| progress.done),
        progress.and_then(|progress| progress.total),
        progress.and_then(|progress| progress.message.as_deref()),
    ])?;
    Ok(())
}

fn append_state_event(
    connection: &Connection,
    effects: &TxEffects,
    id: Id,
    tool: &str,
    (state, now): (JobState, Timestamp),
) -> Result<(), SqliteError> {
    let data = job_rules::state_changed(id, tool, state);
    let subject = id.text();
    effects.log.append(
        connection,
        now,
        job_rules::STATE_CHANGED,
        Some(subject.as_str()),
        (Format::Json, &data),
    )?;
    Ok(())
}
