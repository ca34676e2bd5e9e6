//! Jobs in a table, with counters. `change` updates one job; `recover` takes over and expires many.

mod change;
pub mod count;
mod recover;
mod row;

use super::columns::{number, read_id};
use super::database::Database;
use super::error::SqliteError;
use super::events::{EventLog, Events};
use count::Counts;
use rusqlite::{Connection, params_from_iter, types::Value};
use std::sync::Arc;
use toolyard_engine::stores::{
    Created, Durability, JobEnd, JobFilter, JobStore, Lease, NewJob, Recovered, StoreFuture, UpdateResult,
};
use toolyard_protocol::{Id, Identity, Job, JobState, Progress, Timestamp};

pub const TABLES: &str = "
    CREATE TABLE job (
        id BLOB PRIMARY KEY,
        tool TEXT NOT NULL,
        identity TEXT NOT NULL,
        state INTEGER NOT NULL,
        owner BLOB NOT NULL,
        fence INTEGER NOT NULL,
        timing INTEGER NOT NULL,
        repeatable INTEGER NOT NULL,
        cancel_requested INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        created INTEGER NOT NULL,
        started INTEGER,
        finished INTEGER,
        expires INTEGER,
        ttl INTEGER NOT NULL,
        key TEXT,
        trace TEXT,
        progress_done REAL,
        progress_total REAL,
        progress_message TEXT,
        arguments_format INTEGER NOT NULL,
        arguments BLOB NOT NULL,
        outcome_format INTEGER,
        outcome BLOB
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX job_key ON job (identity, tool, key) WHERE key IS NOT NULL;
    CREATE INDEX job_identity ON job (identity);
    CREATE INDEX job_owner ON job (owner) WHERE state < 3;
    CREATE INDEX job_expires ON job (expires) WHERE expires IS NOT NULL;
";

pub const DEATHS: &str = "
    ALTER TABLE job ADD COLUMN deaths TEXT NOT NULL DEFAULT '';
    CREATE INDEX job_cancel ON job (owner) WHERE cancel_requested = 1 AND state < 3;
";

/// Arguments and outcomes up to this size are written on the caller's thread, if it can be at once.
const SMALL: usize = 16 << 10;

pub struct Jobs {
    database: Arc<Database>,
    effects: TxEffects,
}

/// What an update of a job writes besides its row.
#[derive(Clone)]
struct TxEffects {
    log: EventLog,
    counts: Arc<Counts>,
}

impl Jobs {
    /// Job events are appended to `events`.
    pub fn new(database: Arc<Database>, events: &Events) -> Jobs {
        let effects = TxEffects { log: events.log(), counts: database.counts().clone() };
        Jobs { database, effects }
    }

    fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl FnOnce(&Connection, &TxEffects) -> Result<T, SqliteError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let effects = self.effects.clone();
        Box::pin(self.database.write_checked(durability, move |connection| change(connection, &effects)))
    }

    fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.database.read(query))
    }
}

impl JobStore for Jobs {
    fn create(&self, new: NewJob) -> StoreFuture<'_, Created> {
        let effects = self.effects.clone();
        let is_small = new.arguments.len() <= SMALL;
        let create = move |connection: &Connection| change::create(connection, &effects, &new);
        match is_small {
            true => Box::pin(self.database.write_small(Durability::Synced, create)),
            false => Box::pin(self.database.write_checked(Durability::Synced, create)),
        }
    }

    fn start(&self, lease: Lease, now: Timestamp, durability: Durability) -> StoreFuture<'_, UpdateResult> {
        self.write(durability, move |connection, effects| change::start(connection, effects, lease, now))
    }

    fn progress(&self, lease: Lease, progress: Progress, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.write(Durability::Written, move |connection, effects| {
            change::progress(connection, effects, lease, &progress, now)
        })
    }

    fn set_waiting(&self, lease: Lease, waiting: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.write(Durability::Written, move |connection, effects| {
            change::set_waiting(connection, effects, lease, waiting, now)
        })
    }

    fn finish(&self, lease: Lease, ending: JobEnd, durability: Durability) -> StoreFuture<'_, UpdateResult> {
        let effects = self.effects.clone();
        let is_small = ending.outcome.as_ref().is_none_or(|outcome| outcome.len() <= SMALL);
        let end = move |connection: &Connection| change::finish(connection, &effects, lease, &ending);
        match is_small {
            true => Box::pin(self.database.write_small(durability, end)),
            false => Box::pin(self.database.write_checked(durability, end)),
        }
    }

    fn give_back(&self, lease: Lease, has_run: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.write(Durability::Written, move |connection, effects| {
            change::give_back(connection, effects, lease, has_run, now)
        })
    }

    fn cancel(&self, id: Id, now: Timestamp) -> StoreFuture<'_, JobState> {
        self.write(Durability::Synced, move |connection, effects| {
            change::cancel(connection, effects, id, now)
        })
    }

    fn take_over(&self, from: Id, to: Id, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Recovered>> {
        self.write(Durability::Written, move |connection, effects| {
            recover::take_over(connection, effects, (from, to), now, limit)
        })
    }

    fn cancel_requests(&self, owner: Id) -> StoreFuture<'_, Vec<Id>> {
        self.read(move |connection| {
            let sql =
                "SELECT id FROM job WHERE owner = ?1 AND cancel_requested = 1 AND state < 3 ORDER BY id";
            let mut statement = connection.prepare_cached(sql)?;
            let ids = statement.query_map([owner.as_bytes()], |row| read_id(row, 0))?;
            Ok(ids.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn owners(&self) -> StoreFuture<'_, Vec<Id>> {
        self.read(|connection| {
            // From owner to owner in the index: DISTINCT would read every open job.
            let sql = "WITH RECURSIVE next (owner) AS (
                    SELECT min(owner) FROM job WHERE state < 3
                    UNION ALL
                    SELECT (SELECT min(owner) FROM job WHERE state < 3 AND owner > next.owner)
                    FROM next WHERE next.owner IS NOT NULL
                ) SELECT owner FROM next WHERE owner IS NOT NULL";
            let mut statement = connection.prepare_cached(sql)?;
            let owners = statement.query_map([], |row| read_id(row, 0))?;
            Ok(owners.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn get(&self, id: Id) -> StoreFuture<'_, Option<Job>> {
        self.read(move |connection| Ok(row::get(connection, id)?))
    }

    fn list(&self, filter: JobFilter) -> StoreFuture<'_, Vec<Job>> {
        self.read(move |connection| list(connection, &filter))
    }

    fn count(&self, identity: Option<Identity>) -> StoreFuture<'_, Vec<(JobState, u64)>> {
        self.read(move |connection| Ok(count::by_state(connection, identity.as_ref())?))
    }

    fn expire(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, u64> {
        self.write(Durability::Written, move |connection, effects| {
            recover::expire(connection, effects, now, limit)
        })
    }
}

fn list(connection: &Connection, filter: &JobFilter) -> Result<Vec<Job>, SqliteError> {
    let columns = if filter.is_summary { row::SUMMARY } else { row::COLUMNS };
    let mut sql = format!("SELECT {columns} FROM job WHERE 1");
    let mut values: Vec<Value> = Vec::new();
    if let Some(identity) = &filter.identity {
        sql.push_str(" AND identity = ?");
        values.push(identity.as_str().to_owned().into());
    }
    if let Some(tool) = &filter.tool {
        sql.push_str(" AND tool = ?");
        values.push(tool.clone().into());
    }
    if let Some(before) = filter.before {
        sql.push_str(" AND id < ?");
        values.push(before.as_bytes().to_vec().into());
    }
    if !filter.states.is_empty() {
        let codes: Vec<String> =
            filter.states.iter().map(|&state| row::state_code(state).to_string()).collect();
        sql.push_str(&format!(" AND state IN ({})", codes.join(",")));
    }
    sql.push_str(" ORDER BY id DESC LIMIT ?");
    values.push(number(filter.limit as u64).into());
    let mut statement = connection.prepare_cached(&sql)?;
    let jobs = statement.query_map(params_from_iter(values), row::job)?;
    Ok(jobs.collect::<rusqlite::Result<_>>()?)
}
