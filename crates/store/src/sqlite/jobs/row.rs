//! Rows of the job table as jobs, and the codes in their columns.

use crate::sqlite::columns::{read_id, read_optional_payload, read_payload, unknown_code};
use rusqlite::{Connection, OptionalExtension, Row};
use std::time::Duration;
use toolyard_engine::stores::Lease;
use toolyard_protocol::{Id, Identity, Job, JobState, Progress, Timestamp, Timing};

/// In the order in which [`job`] reads them.
pub const COLUMNS: &str = "id, tool, identity, state, timing, repeatable, cancel_requested, attempt, created, \
    started, finished, expires, key, trace, progress_done, progress_total, progress_message, arguments_format, \
    arguments, outcome_format, outcome, deaths";

/// The same without arguments and outcome.
pub const SUMMARY: &str = "id, tool, identity, state, timing, repeatable, cancel_requested, attempt, created, \
    started, finished, expires, key, trace, progress_done, progress_total, progress_message, arguments_format, \
    x'', NULL, NULL, deaths";

pub fn get(connection: &Connection, id: Id) -> rusqlite::Result<Option<Job>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM job WHERE id = ?1"))?;
    statement.query_row([id.as_bytes()], job).optional()
}

pub fn job(row: &Row) -> rusqlite::Result<Job> {
    Ok(Job {
        id: read_id(row, 0)?,
        tool: row.get(1)?,
        identity: Identity::new(row.get::<_, String>(2)?),
        state: read_state(row, 3)?,
        timing: read_timing(row, 4)?,
        repeatable: row.get(5)?,
        cancel_requested: row.get(6)?,
        attempt: row.get(7)?,
        created: Timestamp::from_unix_ms(row.get::<_, i64>(8)? as u64),
        started: read_time(row, 9)?,
        finished: read_time(row, 10)?,
        expires: read_time(row, 11)?,
        key: row.get(12)?,
        trace: row.get(13)?,
        progress: read_progress(row, 14)?,
        arguments: read_payload(row, 17, 18)?,
        outcome: read_optional_payload(row, 19, 20)?,
        deaths: read_deaths(row.get_ref(21)?.as_str().unwrap_or_default()),
    })
}

/// The columns that an update checks before it writes.
pub struct LeaseRow {
    pub state: JobState,
    pub owner: Id,
    pub fence: u64,
    pub identity: String,
    pub tool: String,
    pub ttl: Duration,
    pub progress: Option<Progress>,
}

impl LeaseRow {
    pub fn load(connection: &Connection, id: Id) -> rusqlite::Result<Option<LeaseRow>> {
        let sql =
            "SELECT state, owner, fence, identity, tool, ttl, progress_done, progress_total, progress_message
            FROM job WHERE id = ?1";
        let read = |row: &Row| {
            Ok(LeaseRow {
                state: read_state(row, 0)?,
                owner: read_id(row, 1)?,
                fence: row.get::<_, i64>(2)? as u64,
                identity: row.get(3)?,
                tool: row.get(4)?,
                ttl: Duration::from_millis(row.get::<_, i64>(5)? as u64),
                progress: read_progress(row, 6)?,
            })
        };
        connection.prepare_cached(sql)?.query_row([id.as_bytes()], read).optional()
    }

    /// The job of a valid lease.
    pub fn for_lease(connection: &Connection, lease: Lease) -> rusqlite::Result<Option<LeaseRow>> {
        let lease_row = LeaseRow::load(connection, lease.id)?;
        Ok(lease_row
            .filter(|job| !job.state.is_finished() && job.owner == lease.owner && job.fence == lease.fence))
    }
}

/// Stored on disk; never renumber. Codes below 3 are open jobs; the indexes of the table rely on it.
pub fn state_code(state: JobState) -> i64 {
    match state {
        JobState::Pending => 0,
        JobState::Running => 1,
        JobState::InputRequired => 2,
        JobState::Complete => 3,
        JobState::Failed => 4,
        JobState::Cancelled => 5,
        JobState::Unknown => 6,
    }
}

pub fn read_state(row: &Row, column: usize) -> rusqlite::Result<JobState> {
    let code = row.get(column)?;
    match JobState::ALL.into_iter().find(|&state| state_code(state) == code) {
        Some(state) => Ok(state),
        None => unknown_code("job state", code, column),
    }
}

/// Stored on disk; never renumber.
pub fn timing_code(timing: Timing) -> i64 {
    match timing {
        Timing::Sync => 0,
        Timing::AsyncShort => 1,
        Timing::AsyncMedium => 2,
        Timing::AsyncLong => 3,
        Timing::FireAndForget => 4,
    }
}

fn read_timing(row: &Row, column: usize) -> rusqlite::Result<Timing> {
    let code = row.get(column)?;
    match Timing::ALL.into_iter().find(|&timing| timing_code(timing) == code) {
        Some(timing) => Ok(timing),
        None => unknown_code("job timing", code, column),
    }
}

/// Milliseconds, each followed by a space.
fn read_deaths(text: &str) -> Vec<Timestamp> {
    text.split_whitespace().filter_map(|ms| ms.parse().ok()).map(Timestamp::from_unix_ms).collect()
}

fn read_time(row: &Row, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(|ms| Timestamp::from_unix_ms(ms as u64)))
}

/// Reads three columns, starting at `column`.
fn read_progress(row: &Row, column: usize) -> rusqlite::Result<Option<Progress>> {
    let Some(done) = row.get(column)? else { return Ok(None) };
    Ok(Some(Progress { done, total: row.get(column + 1)?, message: row.get(column + 2)? }))
}
