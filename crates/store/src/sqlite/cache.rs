//! The cache on disk: a SQLite table with row checksums. Damaged rows are deleted, damaged files recreated.

use super::values::PayloadColumn;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolyard_engine::cache::{self, Cache};
use toolyard_engine::clock::Clock;
use toolyard_engine::stores::{CacheRow, CacheStore};
use toolyard_protocol::{Format, Timestamp};

/// Uses a separate file, because it may be deleted at any time.
pub struct CacheTable {
    path: PathBuf,
    /// `None` when the file cannot be used; the cache then lives in memory only.
    connection: Option<Connection>,
    /// Bytes in the file as far as this process knows; recounted at open and after each trim.
    bytes: u64,
}

/// Opens the cache of a state folder.
pub fn open_cache(state_dir: &Path, options: cache::Options, clock: Arc<dyn Clock>) -> Arc<Cache> {
    Cache::new(Box::new(CacheTable::open(&state_dir.join("cache.sqlite"))), options, clock)
}

impl CacheTable {
    /// Never fails: a damaged file is recreated.
    pub fn open(path: &Path) -> CacheTable {
        let mut store = CacheTable { path: path.to_owned(), connection: None, bytes: 0 };
        store.connection = connect(path).ok();
        store.count();
        store
    }
}

impl CacheStore for CacheTable {
    fn get(&mut self, key: &[u8; 32]) -> Option<CacheRow> {
        match self.query(key) {
            Ok(None) => None,
            Ok(Some((row, sum))) if sum == checksum(key, &row) => Some(row),
            // Damaged, or written by a version with another row format.
            Ok(Some(_))
            | Err(rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..)) => {
                self.delete(key);
                None
            }
            Err(error) => {
                self.recover(&error);
                None
            }
        }
    }

    fn put(&mut self, key: &[u8; 32], row: CacheRow, max_bytes: u64, oldest: Timestamp) {
        let size = row.size();
        if size > max_bytes / 4 {
            return;
        }
        if self.bytes + size > max_bytes {
            self.trim(max_bytes, oldest);
        }
        match self.insert(key, row) {
            Ok(()) => self.bytes += size,
            Err(error) => self.recover(&error),
        }
    }
}

impl CacheTable {
    /// The row and its stored checksum.
    fn query(&self, key: &[u8; 32]) -> rusqlite::Result<Option<(CacheRow, Vec<u8>)>> {
        let Some(connection) = &self.connection else { return Ok(None) };
        let mut statement =
            connection.prepare_cached("SELECT made, data, content, sum FROM cache WHERE key = ?1")?;
        statement
            .query_row([key], |row| {
                let created = Timestamp::from_unix_ms(row.get::<_, i64>(0)? as u64);
                let data = row.get::<_, Option<PayloadColumn>>(1)?.map(|data| data.0);
                let content = row.get::<_, Option<PayloadColumn>>(2)?.map(|content| content.0);
                Ok((CacheRow { created, data, content }, row.get(3)?))
            })
            .optional()
    }

    fn insert(&self, key: &[u8; 32], row: CacheRow) -> rusqlite::Result<()> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let (sum, size) = (checksum(key, &row), row.size() as i64);
        let (data, content) = (row.data.map(PayloadColumn), row.content.map(PayloadColumn));
        let mut statement = connection.prepare_cached(
            "INSERT OR REPLACE INTO cache (key, made, size, data, content, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        statement.execute(params![key, row.created.unix_ms() as i64, size, data, content, sum])?;
        Ok(())
    }

    fn delete(&self, key: &[u8; 32]) {
        if let Some(connection) = &self.connection {
            let _ = connection.execute("DELETE FROM cache WHERE key = ?1", [key]);
        }
    }

    /// Deletes outdated rows, then the oldest ones until a quarter of the capacity is free.
    fn trim(&mut self, max_bytes: u64, oldest: Timestamp) {
        let Some(connection) = &self.connection else { return };
        let _ = connection.execute("DELETE FROM cache WHERE made < ?1", [oldest.unix_ms() as i64]);
        let keep = (max_bytes / 4 * 3) as i64;
        let newest_first = "DELETE FROM cache WHERE key IN (SELECT key FROM
            (SELECT key, SUM(size) OVER (ORDER BY made DESC, key) AS running FROM cache) WHERE running > ?1)";
        let _ = connection.execute(newest_first, [keep]);
        self.count();
    }

    fn count(&mut self) {
        let Some(connection) = &self.connection else { return };
        let sum =
            connection.query_row("SELECT COALESCE(SUM(size), 0) FROM cache", [], |row| row.get::<_, i64>(0));
        match sum {
            Ok(sum) => self.bytes = sum as u64,
            Err(error) => self.recover(&error),
        }
    }

    /// Recreates a damaged file: everything in it can be computed again.
    fn recover(&mut self, error: &rusqlite::Error) {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        if matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase)) {
            self.connection = None;
            remove(&self.path);
            self.connection = connect(&self.path).ok();
            self.bytes = 0;
        }
    }
}

/// Includes the key, so that a row is never returned for another key.
fn checksum(key: &[u8; 32], row: &CacheRow) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key).update(&row.created.unix_ms().to_le_bytes());
    for part in [&row.data, &row.content] {
        let (mark, bytes) = match part {
            None => (0u8, &[][..]),
            Some(payload) => (1 + u8::from(payload.format() == Format::MsgPack), &payload.bytes()[..]),
        };
        hasher.update(&[mark]).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
    *hasher.finalize().as_bytes()
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    prepare(path).or_else(|_| {
        remove(path);
        prepare(path)
    })
}

fn prepare(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // NORMAL: a power cut may lose cached results, kill -9 may not, and neither leaves a torn row.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.busy_timeout(std::time::Duration::from_millis(200))?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS cache (key BLOB PRIMARY KEY, made INTEGER NOT NULL, size INTEGER NOT NULL,
            data BLOB, content BLOB, sum BLOB NOT NULL) WITHOUT ROWID;
         CREATE INDEX IF NOT EXISTS cache_made ON cache (made);
         SELECT key, made, size, data, content, sum FROM cache LIMIT 1;",
    )?;
    Ok(connection)
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::remove_file(PathBuf::from(name));
    }
}
