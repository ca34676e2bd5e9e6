//! How many jobs are in which state, kept beside them: counting rows anew for each new job would cost more than it.

use super::row::{read_state, state_code};
use rusqlite::{Connection, params};
use toolyard_protocol::{Identity, JobState};

/// All callers together. A caller's own scope begins with `=`, so no name can be this.
const ALL: &str = "";

pub fn by_state(
    connection: &Connection,
    identity: Option<&Identity>,
) -> rusqlite::Result<Vec<(JobState, u64)>> {
    let scope = identity.map_or(ALL.to_owned(), |identity| scope_of(identity.as_str()));
    let mut statement = connection
        .prepare_cached("SELECT state, jobs FROM job_count WHERE scope = ?1 AND jobs > 0 ORDER BY state")?;
    let rows = statement.query_map([scope], |row| Ok((read_state(row, 0)?, row.get::<_, i64>(1)? as u64)))?;
    rows.collect()
}

/// Jobs that are not over: of everyone, and of the caller.
pub fn open(connection: &Connection, identity: &str) -> rusqlite::Result<(u64, u64)> {
    let mut statement = connection
        .prepare_cached("SELECT coalesce(sum(jobs), 0) FROM job_count WHERE scope = ?1 AND state < 3")?;
    let mut count = |scope: &str| statement.query_row([scope], |row| row.get::<_, i64>(0));
    Ok((count(ALL)? as u64, count(&scope_of(identity))? as u64))
}

/// A job came into a state, or left one, or both.
pub fn moved(
    connection: &Connection,
    identity: &str,
    from: Option<JobState>,
    to: Option<JobState>,
) -> rusqlite::Result<()> {
    let own = scope_of(identity);
    for (state, change) in [(from, -1), (to, 1)] {
        let Some(state) = state.map(state_code) else { continue };
        for scope in [ALL, &own] {
            let mut update = connection
                .prepare_cached("UPDATE job_count SET jobs = jobs + ?3 WHERE scope = ?1 AND state = ?2")?;
            if update.execute(params![scope, state, change])? == 0 {
                let mut insert = connection
                    .prepare_cached("INSERT INTO job_count (scope, state, jobs) VALUES (?1, ?2, ?3)")?;
                insert.execute(params![scope, state, change])?;
            }
        }
    }
    // A caller whose last job is gone leaves no row behind.
    if to.is_none() {
        let mut remove = connection.prepare_cached("DELETE FROM job_count WHERE scope = ?1 AND jobs = 0")?;
        remove.execute([&own])?;
    }
    Ok(())
}

fn scope_of(identity: &str) -> String {
    format!("={identity}")
}
