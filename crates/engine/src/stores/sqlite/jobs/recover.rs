//! What is done to many jobs at once: taking over from a dead worker, removing what is due.

use super::row::{self, Standing, read_state};
use super::{Books, change};
use crate::stores::sqlite::columns::{number, read_id};
use crate::stores::{Lease, Recovered, StoreError, notice};
use rusqlite::{Connection, params};
use toolyard_protocol::{Id, JobState, Timestamp};

pub fn take_over(
    connection: &Connection,
    books: &Books,
    (from, to): (Id, Id),
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Recovered>, StoreError> {
    notice::check_take_over(from, to)?;
    let sql = "SELECT id, repeatable, cancel_requested FROM job WHERE owner = ?1 AND state < 3 ORDER BY id LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![from.as_bytes(), number(limit as u64)], |row| {
        Ok((read_id(row, 0)?, row.get::<_, bool>(1)?, row.get::<_, bool>(2)?))
    })?;
    let found: Vec<(Id, bool, bool)> = rows.collect::<rusqlite::Result<_>>()?;
    let mut recovered = Vec::with_capacity(found.len());
    for (id, repeatable, cancelled) in found {
        let Some(job) = Standing::of(connection, id)? else { continue };
        let end = match job.state {
            _ if cancelled => Some(JobState::Cancelled),
            JobState::Pending => None,
            _ if repeatable => None,
            _ => Some(JobState::Unknown),
        };
        recovered.push(match end {
            Some(state) => {
                change::end_without_outcome(connection, books, id, &job, (state, now))?;
                Recovered::Over(id, state)
            }
            None => again(connection, books, Lease { id, owner: to, fence: job.fence + 1 }, &job, now)?,
        });
    }
    Ok(recovered)
}

pub fn expire(
    connection: &Connection,
    books: &Books,
    now: Timestamp,
    limit: usize,
) -> Result<u64, StoreError> {
    let sql = "SELECT id, identity, state FROM job WHERE expires <= ?1 ORDER BY expires, id LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![number(now.unix_ms()), number(limit as u64)], |row| {
        Ok((read_id(row, 0)?, row.get::<_, String>(1)?, read_state(row, 2)?))
    })?;
    let due: Vec<(Id, String, JobState)> = rows.collect::<rusqlite::Result<_>>()?;
    for (id, identity, state) in &due {
        connection.prepare_cached("DELETE FROM job WHERE id = ?1")?.execute([id.as_bytes()])?;
        books.counts.moved(connection, identity, Some(*state), None)?;
    }
    Ok(due.len() as u64)
}

fn again(
    connection: &Connection,
    books: &Books,
    lease: Lease,
    job: &Standing,
    now: Timestamp,
) -> Result<Recovered, StoreError> {
    let sql = "UPDATE job SET state = 0, owner = ?2, fence = ?3, started = NULL, progress_done = NULL,
        progress_total = NULL, progress_message = NULL WHERE id = ?1";
    let values = params![lease.id.as_bytes(), lease.owner.as_bytes(), number(lease.fence)];
    connection.prepare_cached(sql)?.execute(values)?;
    // A job that had not begun changes hands, not its state.
    if job.state != JobState::Pending {
        change::moved(connection, books, lease.id, job, (JobState::Pending, now))?;
    }
    match row::get(connection, lease.id)? {
        Some(job) => Ok(Recovered::Again(lease, Box::new(job))),
        None => notice::no_job(lease.id),
    }
}
