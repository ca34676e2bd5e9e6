//! Operations on many jobs: taking over from a dead worker, deleting expired jobs.

use super::row::{self, LeaseRow, read_state};
use super::{TxEffects, change};
use crate::job_rules;
use crate::sqlite::columns::{number, read_id};
use crate::sqlite::database::incremental_vacuum;
use crate::sqlite::error::SqliteError;
use rusqlite::{Connection, params};
use toolyard_engine::stores::{Lease, Recovered};
use toolyard_protocol::{Id, JobState, Timestamp};

/// Free pages that a file keeps for new rows: 4 MiB.
const KEPT_PAGES: i64 = 1024;

/// Pages given back at a time: 16 MiB.
const SHRINK_PAGES: i64 = 4096;

pub fn take_over(
    connection: &Connection,
    effects: &TxEffects,
    (from, to): (Id, Id),
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Recovered>, SqliteError> {
    job_rules::check_take_over(from, to)?;
    let sql = "SELECT id, repeatable, cancel_requested FROM job WHERE owner = ?1 AND state < 3 ORDER BY id LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![from.as_bytes(), number(limit as u64)], |row| {
        Ok((read_id(row, 0)?, row.get::<_, bool>(1)?, row.get::<_, bool>(2)?))
    })?;
    let found: Vec<(Id, bool, bool)> = rows.collect::<rusqlite::Result<_>>()?;
    let mut recovered = Vec::with_capacity(found.len());
    for (id, repeatable, cancelled) in found {
        let Some(job) = LeaseRow::load(connection, id)? else { continue };
        let end = match job.state {
            _ if cancelled => Some(JobState::Cancelled),
            JobState::Pending => None,
            _ if repeatable => None,
            _ => Some(JobState::Unknown),
        };
        recovered.push(match end {
            Some(state) => {
                change::end_without_outcome(connection, effects, id, &job, (state, now))?;
                Recovered::Ended(id, state)
            }
            None => requeue(connection, effects, Lease { id, owner: to, fence: job.fence + 1 }, &job, now)?,
        });
    }
    Ok(recovered)
}

pub fn expire(
    connection: &Connection,
    effects: &TxEffects,
    now: Timestamp,
    limit: usize,
) -> Result<u64, SqliteError> {
    let sql = "SELECT id, identity, state FROM job WHERE expires <= ?1 ORDER BY expires, id LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![number(now.unix_ms()), number(limit as u64)], |row| {
        Ok((read_id(row, 0)?, row.get::<_, String>(1)?, read_state(row, 2)?))
    })?;
    let due: Vec<(Id, String, JobState)> = rows.collect::<rusqlite::Result<_>>()?;
    for (id, identity, state) in &due {
        connection.prepare_cached("DELETE FROM job WHERE id = ?1")?.execute([id.as_bytes()])?;
        effects.counts.record_transition(identity, Some(*state), None);
    }
    shrink(connection)?;
    Ok(due.len() as u64)
}

/// Gives pages that removed jobs left to the file system, a bounded number at a time.
fn shrink(connection: &Connection) -> Result<(), SqliteError> {
    let free: i64 = connection.prepare_cached("PRAGMA freelist_count")?.query_row([], |row| row.get(0))?;
    if free > KEPT_PAGES {
        let pages = (free - KEPT_PAGES).min(SHRINK_PAGES);
        incremental_vacuum(connection, &format!("({pages})"))?;
    }
    Ok(())
}

fn requeue(
    connection: &Connection,
    effects: &TxEffects,
    lease: Lease,
    job: &LeaseRow,
    now: Timestamp,
) -> Result<Recovered, SqliteError> {
    let sql = "UPDATE job SET state = 0, owner = ?2, fence = ?3, started = NULL, progress_done = NULL,
        progress_total = NULL, progress_message = NULL, deaths = deaths || ?4 WHERE id = ?1";
    let death = match job.state {
        JobState::Pending => String::new(),
        _ => format!("{} ", now.unix_ms()),
    };
    let values = params![lease.id.as_bytes(), lease.owner.as_bytes(), number(lease.fence), death];
    connection.prepare_cached(sql)?.execute(values)?;
    // A pending job changes its owner, not its state.
    if job.state != JobState::Pending {
        change::record_transition(connection, effects, lease.id, job, (JobState::Pending, now))?;
    }
    match row::get(connection, lease.id)? {
        Some(job) => Ok(Recovered::Requeued(lease, Box::new(job))),
        None => Ok(job_rules::job_not_found(lease.id)?),
    }
}
