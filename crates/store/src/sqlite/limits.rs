//! Rate limits: a row for each bucket that is not full.

use super::Database;
use super::error::SqliteError;
use crate::bounds;
use crate::bucket::{EVICT_BATCH, StoredBucket, nanos};
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::stores::Durability::Written;
use toolyard_engine::stores::{LimitStore, StoreFuture};
use toolyard_protocol::{Rate, Timestamp};

/// The key column is called `bucket`, because KEY is a keyword of SQL.
pub const TABLES: &str = "
    CREATE TABLE rate_limit (bucket TEXT NOT NULL PRIMARY KEY, asked INTEGER NOT NULL, full INTEGER NOT NULL)
        STRICT, WITHOUT ROWID;
    CREATE INDEX rate_limit_full ON rate_limit (full, bucket);";

pub struct Limits(Arc<Database>);

impl Limits {
    pub fn new(database: Arc<Database>) -> Limits {
        Limits(database)
    }
}

impl LimitStore for Limits {
    fn take(&self, key: String, rate: Rate, now: Timestamp) -> StoreFuture<'_, Option<Duration>> {
        Box::pin(async move {
            bounds::label("key", &key)?;
            bounds::rate(rate)?;
            self.0.write(Written, move |connection| take(connection, &key, rate, now)).await
        })
    }
}

fn take(
    connection: &Connection,
    key: &str,
    rate: Rate,
    now: Timestamp,
) -> Result<Option<Duration>, SqliteError> {
    let known = connection
        .prepare_cached("SELECT asked, full FROM rate_limit WHERE bucket = ?1")?
        .query_row([key], |row| Ok(StoredBucket { asked: row.get(0)?, full: row.get(1)? }))
        .optional()?;
    let mut bucket = match known {
        Some(bucket) => bucket,
        None => {
            evict_full(connection, now)?;
            StoredBucket::full_at(now)
        }
    };
    let wait = bucket.take(rate, now);
    if known != Some(bucket) {
        connection
            .prepare_cached("INSERT OR REPLACE INTO rate_limit (bucket, asked, full) VALUES (?1, ?2, ?3)")?
            .execute(params![key, bucket.asked, bucket.full])?;
    }
    Ok(wait)
}

/// Deletes a batch of full buckets, which are equivalent to none.
fn evict_full(connection: &Connection, now: Timestamp) -> Result<(), SqliteError> {
    let sql = "DELETE FROM rate_limit WHERE bucket IN
        (SELECT bucket FROM rate_limit WHERE full <= ?1 ORDER BY full, bucket LIMIT ?2)";
    connection.prepare_cached(sql)?.execute(params![nanos(now), EVICT_BATCH as i64])?;
    Ok(())
}

#[cfg(test)]
pub fn buckets(connection: &Connection) -> Result<Vec<(String, StoredBucket)>, SqliteError> {
    let mut statement = connection.prepare("SELECT bucket, asked, full FROM rate_limit ORDER BY bucket")?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, StoredBucket { asked: row.get(1)?, full: row.get(2)? })))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
