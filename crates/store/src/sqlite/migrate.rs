//! Schema migrations. A released step is never changed; a new one is added.

use super::error::SqliteError;
use super::{annotations, archive, artifacts, events, graph, jobs, limits};
use rusqlite::{Connection, TransactionBehavior};
use toolyard_engine::stores::StoreError;

/// Each step migrates the file from the version equal to its index to the next one.
const STEPS: [&str; 9] = [
    events::TABLES,
    jobs::TABLES,
    jobs::count::TABLES,
    artifacts::TABLES,
    annotations::TABLES,
    graph::TABLES,
    archive::TABLES,
    limits::TABLES,
    jobs::DEATHS,
];

/// Migrates to the newest version, all steps or none.
pub fn migrate(connection: &mut Connection) -> Result<(), SqliteError> {
    migrate_with(connection, &STEPS)
}

pub fn migrate_with(connection: &mut Connection, steps: &[&str]) -> Result<(), SqliteError> {
    if current(connection, steps)? == steps.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Checked again under the lock: another process may have migrated meanwhile.
    let version = current(&transaction, steps)?;
    for step in &steps[version..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", steps.len() as i64)?;
    transaction.commit()?;
    Ok(())
}

fn current(connection: &Connection, steps: &[&str]) -> Result<usize, SqliteError> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match usize::try_from(version) {
        Ok(version) if version <= steps.len() => Ok(version),
        _ => Err(StoreError::Broken(format!(
            "it was written by another version of Toolyard (schema version {version}, supported up to {}); \
             update Toolyard, or restore a backup",
            steps.len()
        ))
        .into()),
    }
}
