//! Counters of jobs by state: counting rows for each new job would cost more than creating it.
//!
//! A group of writes shares one transaction, so a caller's row is read and written once per group.

use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
    all: Option<CountRow>,
    /// By identity.
    callers: HashMap<String, CountRow>,
}

#[derive(Clone, Copy)]
struct CountRow {
    numbers: StateCounts,
    changed: bool,
}

impl Counts {
    /// Open jobs of all callers, and of this caller.
    pub fn open(&self, connection: &Connection, identity: &str) -> rusqlite::Result<(u64, u64)> {
        let mut pending = self.pending();
        let (all, own) = pending.both(connection, identity)?;
        Ok((all.open(), own.open()))
    }

    /// Counts a job that entered a state, left one, or both. Only a rollback of the transaction undoes it.
    pub fn record_transition(
        &self,
        connection: &Connection,
        identity: &str,
        from: Option<JobState>,
        to: Option<JobState>,
    ) -> rusqlite::Result<()> {
        let mut pending = self.pending();
        let (all, own) = pending.both(connection, identity)?;
        for counted in [all, own] {
            for (number, state) in counted.numbers.iter_mut().zip(JobState::ALL) {
                *number += i64::from(to == Some(state)) - i64::from(from == Some(state));
            }
            counted.changed = true;
        }
        Ok(())
    }

    /// Writes changed counts to the table, as the last step of a transaction.
    pub fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let pending = std::mem::take(&mut *self.pending());
        if let Some(all) = pending.all {
            all.write(connection, ALL)?;
        }
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
    /// The counts of all callers and of this caller, read from the table on first use.
    fn both(
        &mut self,
        connection: &Connection,
        identity: &str,
    ) -> rusqlite::Result<(&mut CountRow, &mut CountRow)> {
        let read =
            |scope: &str| stored(connection, scope).map(|numbers| CountRow { numbers, changed: false });
        let all = match self.all {
            Some(all) => all,
            None => read(ALL)?,
        };
        let own = match self.callers.entry(identity.to_owned()) {
            Entry::Occupied(own) => own.into_mut(),
            Entry::Vacant(slot) => slot.insert(read(&scope_of(identity))?),
        };
        Ok((self.all.insert(all), own))
    }
}

impl CountRow {
    fn open(&self) -> u64 {
        let open = self.numbers.iter().zip(JobState::ALL).filter(|(_, state)| !state.is_finished());
        open.map(|(&number, _)| number as u64).sum()
    }

    /// Deletes the row when all counts are zero.
    fn write(&self, connection: &Connection, scope: &str) -> rusqlite::Result<()> {
        if !self.changed {
            return Ok(());
        }
        if self.numbers.iter().all(|&number| number == 0) {
            connection.prepare_cached("DELETE FROM job_count WHERE scope = ?1")?.execute([scope])?;
            return Ok(());
        }
        let [a, b, c, d, e, f, g] = self.numbers;
        let sql = "INSERT OR REPLACE INTO job_count VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        connection.prepare_cached(sql)?.execute(params![scope, a, b, c, d, e, f, g])?;
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
