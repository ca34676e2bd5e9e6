//! Results on disk: one SQLite table, each row with a checksum. A broken row is dropped, a broken file remade.

use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use toolyard_protocol::{Outcome, Payload};

pub struct Store {
    path: PathBuf,
    /// `None` when the file cannot be used; the cache then lives in memory only.
    connection: Option<Connection>,
    /// Bytes in the file as far as this process knows; counted anew when it starts and after each trim.
    bytes: u64,
}

impl Store {
    pub fn open(path: &Path) -> Store {
        let mut store = Store { path: path.to_owned(), connection: None, bytes: 0 };
        store.connection = connect(path).ok();
        store.count();
        store
    }

    pub fn get(&mut self, key: &[u8; 32]) -> Option<(u64, Outcome)> {
        let row = self.query(key);
        match row {
            Ok(row) => {
                let row = row?;
                let outcome = row.checked_outcome(key);
                if outcome.is_none() {
                    self.forget(key);
                }
                outcome.map(|outcome| (row.made, outcome))
            }
            Err(error) => {
                self.recover(&error);
                None
            }
        }
    }

    pub fn put(&mut self, key: &[u8; 32], made: u64, outcome: &Outcome, max_bytes: u64, oldest: u64) {
        let row = Row::of(made, outcome);
        let size = row.size();
        // One result may not push out all the others.
        if size > max_bytes / 4 {
            return;
        }
        if self.bytes + size > max_bytes {
            self.trim(max_bytes, oldest);
        }
        match self.insert(key, &row) {
            Ok(()) => self.bytes += size,
            Err(error) => self.recover(&error),
        }
    }

    fn query(&self, key: &[u8; 32]) -> rusqlite::Result<Option<Row>> {
        let Some(connection) = &self.connection else { return Ok(None) };
        let mut statement =
            connection.prepare_cached("SELECT made, data, content, sum FROM cache WHERE key = ?1")?;
        statement
            .query_row([key], |row| {
                Ok(Row {
                    made: row.get::<_, i64>(0)? as u64,
                    data: row.get(1)?,
                    content: row.get(2)?,
                    sum: row.get(3)?,
                })
            })
            .optional()
    }

    fn insert(&self, key: &[u8; 32], row: &Row) -> rusqlite::Result<()> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let mut statement = connection
            .prepare_cached("INSERT OR REPLACE INTO cache (key, made, size, data, content, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        let sum = row.sum_for(key);
        statement.execute(params![key, row.made as i64, row.size() as i64, row.data, row.content, sum])?;
        Ok(())
    }

    fn forget(&self, key: &[u8; 32]) {
        if let Some(connection) = &self.connection {
            let _ = connection.execute("DELETE FROM cache WHERE key = ?1", [key]);
        }
    }

    /// Removes what is too old, then the oldest until a quarter of the room is free.
    fn trim(&mut self, max_bytes: u64, oldest: u64) {
        let Some(connection) = &self.connection else { return };
        let _ = connection.execute("DELETE FROM cache WHERE made < ?1", [oldest as i64]);
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

    /// A damaged file is thrown away: everything in it can be computed again.
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

struct Row {
    made: u64,
    data: Option<Vec<u8>>,
    content: Option<Vec<u8>>,
    sum: Vec<u8>,
}

impl Row {
    fn of(made: u64, outcome: &Outcome) -> Row {
        let bytes = |payload: Option<&Payload>| payload.map(|payload| payload.bytes().to_vec());
        Row { made, data: bytes(outcome.data()), content: bytes(outcome.content()), sum: Vec::new() }
    }

    fn size(&self) -> u64 {
        let len = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        128 + (len(&self.data) + len(&self.content)) as u64
    }

    /// Over the key as well, so that a row can't answer for another.
    fn sum_for(&self, key: &[u8; 32]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(key).update(&self.made.to_le_bytes());
        for part in [&self.data, &self.content] {
            hasher.update(&part.as_ref().map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
            hasher.update(part.as_deref().unwrap_or_default());
        }
        *hasher.finalize().as_bytes()
    }

    fn checked_outcome(&self, key: &[u8; 32]) -> Option<Outcome> {
        if self.sum != self.sum_for(key) {
            return None;
        }
        let outcome = Outcome::success(self.data.clone().map(Payload::json));
        Some(match self.content.clone() {
            Some(content) => outcome.with_content(Payload::json(content)),
            None => outcome,
        })
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    prepare(path).or_else(|_| {
        remove(path);
        prepare(path)
    })
}

fn prepare(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // A kept result may be lost to a power cut, never to a kill -9, and never torn: that is what NORMAL gives.
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
