//! Counters of jobs by state: counting rows for each new job would cost more than creating it.
//!
//! A group of writes shares one transaction, so a caller's row is read at most once per group, and written once.

use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use toolyard_protocol::{Identity, JobState};

pub const TABLES: &str = "
    CREATE TABLE job_count (
        scope TEXT PRIMARY KEY,
        pending INTEGER NOT NULL,
        running INTEGER NOT NULL,
        input_required INTEGER NOT NULL,
        complete INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        cancelled INTEGER NOT NULL,
        unknown INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

const READ: &str = "SELECT pending, running, input_required, complete, failed, cancelled, unknown
    FROM job_count WHERE scope = ?1";

const ADD: &str = "UPDATE job_count SET pending = pending + ?2, running = running + ?3,
    input_required = input_required + ?4, complete = complete + ?5, failed = failed + ?6,
    cancelled = cancelled + ?7, unknown = unknown + ?8 WHERE scope = ?1";

/// Scope of all callers together. A caller's own scope begins with `=`, so the two never collide.
const ALL: &str = "";

/// In the order of `JobState::ALL`.
type StateCounts = [i64; JobState::ALL.len()];

pub fn by_state(
    connection: &Connection,
    identity: Option<&Identity>,
) -> rusqlite::Result<Vec<(JobState, u64)>> {
    let scope = identity.map_or(ALL.to_owned(), |identity| scope_of(identity.as_str()));
    let numbers = stored(connection, &scope)?.into_iter().map(|number| number as u64);
    Ok(JobState::ALL.into_iter().zip(numbers).filter(|&(_, jobs)| jobs > 0).collect())
}

/// The counts within the open transaction. Only the writer thread uses them.
#[derive(Default)]
pub struct Counts(Mutex<PendingCounts>);

#[derive(Default)]
struct PendingCounts {
    all: CountRow,
    /// By identity.
    callers: HashMap<String, CountRow>,
}

#[derive(Clone, Copy, Default)]
struct CountRow {
    /// As in the table before this transaction; read when it is needed.
    stored: Option<StateCounts>,
    change: StateCounts,
    /// Jobs were removed, so that all counts may be zero.
    has_removed: bool,
}

impl Counts {
    /// Open jobs of all callers, and of this caller.
    pub fn open(&self, connection: &Connection, identity: &str) -> rusqlite::Result<(u64, u64)> {
        let mut pending = self.pending();
        let all = pending.all.open(connection, ALL)?;
        Ok((all, pending.caller(identity).open(connection, &scope_of(identity))?))
    }

    /// Counts a job that entered a state, left one, or both. Only a rollback of the transaction undoes it.
    pub fn record_transition(&self, identity: &str, from: Option<JobState>, to: Option<JobState>) {
        let mut pending = self.pending();
        pending.all.record_transition(from, to);
        pending.caller(identity).record_transition(from, to);
    }

    /// Writes changed counts to the table, as the last step of a transaction.
    pub fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let pending = std::mem::take(&mut *self.pending());
        pending.all.write(connection, ALL)?;
        for (identity, counted) in pending.callers {
            counted.write(connection, &scope_of(&identity))?;
        }
        Ok(())
    }

    /// Discards the counts after a rollback: other processes may write before the next transaction.
    pub fn discard(&self) {
        *self.pending() = PendingCounts::default();
    }

    fn pending(&self) -> MutexGuard<'_, PendingCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingCounts {
    fn caller(&mut self, identity: &str) -> &mut CountRow {
        self.callers.entry(identity.to_owned()).or_default()
    }
}

impl CountRow {
    fn open(&mut self, connection: &Connection, scope: &str) -> rusqlite::Result<u64> {
        let stored = match self.stored {
            Some(stored) => stored,
            None => *self.stored.insert(stored(connection, scope)?),
        };
        let numbers = stored.iter().zip(self.change).zip(JobState::ALL);
        Ok(numbers.filter(|(_, state)| !state.is_finished()).map(|((a, b), _)| (a + b) as u64).sum())
    }

    fn record_transition(&mut self, from: Option<JobState>, to: Option<JobState>) {
        for (number, state) in self.change.iter_mut().zip(JobState::ALL) {
            *number += i64::from(to == Some(state)) - i64::from(from == Some(state));
        }
        self.has_removed |= to.is_none();
    }

    /// Deletes the row when all counts are zero.
    fn write(&self, connection: &Connection, scope: &str) -> rusqlite::Result<()> {
        if self.change == StateCounts::default() {
            return Ok(());
        }
        let [a, b, c, d, e, f, g] = self.change;
        let values = params![scope, a, b, c, d, e, f, g];
        if connection.prepare_cached(ADD)?.execute(values)? == 0 {
            let sql = "INSERT INTO job_count VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            connection.prepare_cached(sql)?.execute(values)?;
        }
        if self.has_removed && stored(connection, scope)? == StateCounts::default() {
            connection.prepare_cached("DELETE FROM job_count WHERE scope = ?1")?.execute([scope])?;
        }
        Ok(())
    }
}

/// All zeros when there is no row.
fn stored(connection: &Connection, scope: &str) -> rusqlite::Result<StateCounts> {
    let read = |row: &Row| {
        let mut numbers = StateCounts::default();
        for (column, number) in numbers.iter_mut().enumerate() {
            *number = row.get(column)?;
        }
        Ok(numbers)
    };
    Ok(connection.prepare_cached(READ)?.query_row([scope], read).optional()?.unwrap_or_default())
}

fn scope_of(identity: &str) -> String {
    format!("={identity}")
}
