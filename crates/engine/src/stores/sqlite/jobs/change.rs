//! Changes of one job, each inside the transaction it is called in, with its event.
//!
//! All checks come before the first write: the changes are run without a savepoint.

use super::Books;
use super::row::{self, Standing, state_code, timing_code};
use crate::stores::sqlite::columns::{format_code, number, read_id};
use crate::stores::{Change, Created, Ending, Lease, NewJob, StoreError, notice};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use toolyard_protocol::{Format, Id, JobState, Payload, Progress, Timestamp};

pub fn create(connection: &Connection, books: &Books, new: &NewJob) -> Result<Created, StoreError> {
    notice::check_new(new)?;
    if let Some(key) = &new.key {
        let mut same =
            connection.prepare_cached("SELECT id FROM job WHERE identity = ?1 AND tool = ?2 AND key = ?3")?;
        let id = same.query_row([new.identity.as_str(), &new.tool, key], |row| read_id(row, 0)).optional()?;
        if let Some(id) = id {
            return match row::get(connection, id)? {
                Some(job) => Ok(Created::Existing(Box::new(job))),
                None => Err(StoreError::Broken(format!("the index names a job {id} that is not there"))),
            };
        }
    }
    let (open, open_of_caller) = books.counts.open(connection, new.identity.as_str())?;
    notice::check_open(new, open, open_of_caller)?;
    insert(connection, new)?;
    books.counts.moved(connection, new.identity.as_str(), None, Some(new.state))?;
    say(connection, books, new.id, &new.tool, (new.state, new.now))?;
    Ok(Created::New(Lease { id: new.id, owner: new.owner, fence: 1 }))
}

pub fn start(
    connection: &Connection,
    books: &Books,
    lease: Lease,
    now: Timestamp,
) -> Result<Change, StoreError> {
    let Some(job) = Standing::under(connection, lease)? else { return Ok(Change::LeaseLost) };
    if job.state != JobState::Pending {
        return notice::wrong_state(lease.id, job.state, "a pending job");
    }
    let sql = "UPDATE job SET state = 1, started = ?2, attempt = attempt + 1 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![lease.id.as_bytes(), number(now.unix_ms())])?;
    moved(connection, books, lease.id, &job, (JobState::Running, now))
}

pub fn progress(
    connection: &Connection,
    books: &Books,
    lease: Lease,
    progress: &Progress,
    now: Timestamp,
) -> Result<Change, StoreError> {
    notice::check_progress(progress)?;
    if Standing::under(connection, lease)?.is_none() {
        return Ok(Change::LeaseLost);
    }
    let sql = "UPDATE job SET progress_done = ?2, progress_total = ?3, progress_message = ?4 WHERE id = ?1";
    let values = params![lease.id.as_bytes(), progress.done, progress.total, progress.message];
    connection.prepare_cached(sql)?.execute(values)?;
    let data = notice::progress(lease.id, progress);
    let subject = lease.id.text();
    books.log.append(connection, now, notice::PROGRESS, Some(subject.as_str()), (Format::Json, &data))?;
    Ok(Change::Made)
}

pub fn waiting(
    connection: &Connection,
    books: &Books,
    lease: Lease,
    waiting: bool,
    now: Timestamp,
) -> Result<Change, StoreError> {
    let Some(job) = Standing::under(connection, lease)? else { return Ok(Change::LeaseLost) };
    let state = if waiting { JobState::InputRequired } else { JobState::Running };
    if job.state == JobState::Pending {
        return notice::wrong_state(lease.id, job.state, "a running job");
    }
    if job.state == state {
        return Ok(Change::Made);
    }
    let mut update = connection.prepare_cached("UPDATE job SET state = ?2 WHERE id = ?1")?;
    update.execute(params![lease.id.as_bytes(), state_code(state)])?;
    moved(connection, books, lease.id, &job, (state, now))
}

pub fn finish(
    connection: &Connection,
    books: &Books,
    lease: Lease,
    ending: &Ending,
) -> Result<Change, StoreError> {
    notice::check_ending(ending)?;
    let Some(job) = Standing::under(connection, lease)? else { return Ok(Change::LeaseLost) };
    let expires = notice::expiry(ending.now, ending.ttl);
    end(connection, lease.id, (ending.state, ending.now, expires), ending.outcome.as_ref())?;
    moved(connection, books, lease.id, &job, (ending.state, ending.now))
}

pub fn cancel(
    connection: &Connection,
    books: &Books,
    id: Id,
    now: Timestamp,
) -> Result<JobState, StoreError> {
    let Some(job) = Standing::of(connection, id)? else { return notice::no_job(id) };
    if job.state.is_over() {
        return Ok(job.state);
    }
    let mut wish = connection.prepare_cached("UPDATE job SET cancel_requested = 1 WHERE id = ?1")?;
    wish.execute([id.as_bytes()])?;
    if job.state != JobState::Pending {
        return Ok(job.state);
    }
    end_without_outcome(connection, books, id, &job, (JobState::Cancelled, now))?;
    Ok(JobState::Cancelled)
}

/// The end of a job that no worker ended.
pub fn end_without_outcome(
    connection: &Connection,
    books: &Books,
    id: Id,
    job: &Standing,
    (state, now): (JobState, Timestamp),
) -> Result<Change, StoreError> {
    end(connection, id, (state, now, notice::expiry(now, job.ttl)), None)?;
    moved(connection, books, id, job, (state, now))
}

/// Counts and tells that a job has left the state of `job` for another.
pub fn moved(
    connection: &Connection,
    books: &Books,
    id: Id,
    job: &Standing,
    (state, now): (JobState, Timestamp),
) -> Result<Change, StoreError> {
    books.counts.moved(connection, &job.identity, Some(job.state), Some(state))?;
    say(connection, books, id, &job.tool, (state, now))?;
    Ok(Change::Made)
}

fn insert(connection: &Connection, new: &NewJob) -> Result<(), StoreError> {
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
        // The key was looked for in this transaction, so it is the id.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            notice::taken(new.id)
        }
        Err(error) => Err(error.into()),
    }
}

fn end(
    connection: &Connection,
    id: Id,
    (state, now, expires): (JobState, Timestamp, Timestamp),
    outcome: Option<&Payload>,
) -> rusqlite::Result<()> {
    let sql = "UPDATE job SET state = ?2, finished = ?3, expires = ?4, outcome_format = ?5, outcome = ?6 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![
        id.as_bytes(),
        state_code(state),
        number(now.unix_ms()),
        number(expires.unix_ms()),
        outcome.map(|outcome| format_code(outcome.format())),
        outcome.map(|outcome| &outcome.bytes()[..]),
    ])?;
    Ok(())
}

fn say(
    connection: &Connection,
    books: &Books,
    id: Id,
    tool: &str,
    (state, now): (JobState, Timestamp),
) -> Result<(), StoreError> {
    let data = notice::state_changed(id, tool, state);
    let subject = id.text();
    books.log.append(
        connection,
        now,
        notice::STATE_CHANGED,
        Some(subject.as_str()),
        (Format::Json, &data),
    )?;
    Ok(())
}
