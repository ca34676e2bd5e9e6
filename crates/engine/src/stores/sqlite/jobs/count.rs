//! How many jobs are in which state, kept beside them: counting rows anew for each new job would cost more than it.

use rusqlite::{Connection, OptionalExtension, params};
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

/// All callers together. A caller's own scope begins with `=`, so no name can be this.
const ALL: &str = "";

pub fn by_state(
    connection: &Connection,
    identity: Option<&Identity>,
) -> rusqlite::Result<Vec<(JobState, u64)>> {
    let scope = identity.map_or(ALL.to_owned(), |identity| scope_of(identity.as_str()));
    let mut statement = connection.prepare_cached(
        "SELECT pending, running, input_required, complete, failed, cancelled, unknown
         FROM job_count WHERE scope = ?1",
    )?;
    let counts = statement.query_row([scope], |row| {
        let count = |(column, state)| Ok((state, row.get::<_, i64>(column)? as u64));
        JobState::ALL.into_iter().enumerate().map(count).collect::<rusqlite::Result<Vec<_>>>()
    });
    let mut counts = counts.optional()?.unwrap_or_default();
    counts.retain(|&(_, jobs)| jobs > 0);
    Ok(counts)
}

/// Jobs that are not over: of everyone, and of the caller.
pub fn open(connection: &Connection, identity: &str) -> rusqlite::Result<(u64, u64)> {
    let mut statement = connection
        .prepare_cached("SELECT pending + running + input_required FROM job_count WHERE scope = ?1")?;
    let mut count = |scope: &str| {
        let count = statement.query_row([scope], |row| row.get::<_, i64>(0)).optional();
        count.map(|count| count.unwrap_or(0) as u64)
    };
    Ok((count(ALL)?, count(&scope_of(identity))?))
}

/// A job came into a state, or left one, or both.
pub fn moved(
    connection: &Connection,
    identity: &str,
    from: Option<JobState>,
    to: Option<JobState>,
) -> rusqlite::Result<()> {
    let own = scope_of(identity);
    let change = |state| i64::from(to == Some(state)) - i64::from(from == Some(state));
    let [a, b, c, d, e, f, g] = JobState::ALL.map(change);
    let mut update = connection.prepare_cached(
        "UPDATE job_count SET pending = pending + ?2, running = running + ?3, input_required = input_required + ?4,
            complete = complete + ?5, failed = failed + ?6, cancelled = cancelled + ?7, unknown = unknown + ?8
         WHERE scope = ?1",
    )?;
    for scope in [ALL, &own] {
        if update.execute(params![scope, a, b, c, d, e, f, g])? == 0 {
            let sql = "INSERT INTO job_count VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            connection.prepare_cached(sql)?.execute(params![scope, a, b, c, d, e, f, g])?;
        }
    }
    // A caller whose last job is gone leaves no row behind.
    if to.is_none() {
        let mut remove = connection.prepare_cached(
            "DELETE FROM job_count WHERE scope = ?1
                AND pending + running + input_required + complete + failed + cancelled + unknown = 0",
        )?;
        remove.execute([&own])?;
    }
    Ok(())
}

fn scope_of(identity: &str) -> String {
    format!("={identity}")
}
