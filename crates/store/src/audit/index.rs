//! A SQLite index of the segments, for `audit list`. It contains only derived data: it catches up from its
//! last position, and is rebuilt when it is missing, damaged or of another version.

use super::AuditError;
use super::folder::Folder;
use super::reader::LineReader;
use super::record::Line;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::{Id, JsonView, Timestamp};

/// Incremented whenever the tables change; an index of another version is rebuilt.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE segment (id TEXT PRIMARY KEY, offset INTEGER NOT NULL, hash TEXT NOT NULL,
        skipped INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE call (
        id TEXT PRIMARY KEY, segment TEXT, time TEXT, tool TEXT, caller TEXT, edge TEXT, trace TEXT,
        status TEXT, error TEXT, message TEXT, duration_us INTEGER, output_bytes INTEGER) WITHOUT ROWID;
    CREATE INDEX call_by_time ON call (time);
    CREATE INDEX call_by_tool ON call (tool, time);
    CREATE INDEX call_by_segment ON call (segment);
";

/// Maximum number of rows of a query, whatever its limit.
const ROWS: u32 = 10_000;

pub struct Index {
    database: Connection,
    path: PathBuf,
    folder: Folder,
    view: Arc<dyn JsonView>,
}

/// Which calls to list; every given condition must match.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub call: Option<Id>,
    pub tool: Option<String>,
    pub caller: Option<String>,
    /// The status of an outcome, `refused`, or `open` for calls without an end.
    pub status: Option<String>,
    pub since: Option<Timestamp>,
    /// 100 when not given; never more than 10,000.
    pub limit: Option<u32>,
}

/// One call: its begin joined with its end, or its refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRow {
    pub call: String,
    pub time: String,
    pub tool: String,
    pub caller: String,
    pub edge: String,
    pub trace: Option<String>,
    /// As in [`Filter::status`].
    pub status: String,
    pub error: Option<String>,
    pub message: Option<String>,
    pub duration_us: Option<i64>,
    pub output_bytes: Option<i64>,
}

impl Index {
    /// Opens the index and catches up with the segments.
    pub fn open(state_dir: &Path, view: Arc<dyn JsonView>) -> Result<Index, AuditError> {
        let folder = Folder::of(state_dir);
        let path = folder.index();
        let attempt = || {
            let database = connect(&path)?;
            let mut index =
                Index { database, path: path.clone(), folder: folder.clone(), view: view.clone() };
            index.catch_up()?;
            // Detects missing or wrong tables at once.
            index.query(&Filter { limit: Some(0), ..Filter::default() })?;
            Ok(index)
        };
        match attempt() {
            Err(AuditError::Index { source, .. }) if is_damage(&source) => {
                remove(&path)?;
                attempt()
            }
            other => other,
        }
    }

    /// Indexes new records, and deletes the rows of removed segments.
    pub fn catch_up(&mut self) -> Result<(), AuditError> {
        let failed = |e| AuditError::index(&self.path, e);
        let ids = self.folder.segment_ids()?;
        let change =
            self.database.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        delete_missing_segments(&change, &ids).map_err(failed)?;
        for id in ids {
            let reading =
                SegmentIndexer { change: &change, index: &self.path, view: &*self.view, id: id.to_string() };
            reading.read(&self.folder.segment(id))?;
        }
        change.commit().map_err(failed)
    }

    /// The newest calls that match, newest first.
    pub fn query(&self, filter: &Filter) -> Result<Vec<CallRow>, AuditError> {
        let failed = |e| AuditError::index(&self.path, e);
        // A call whose begin was pruned has no tool and is not listed.
        let mut statement = self
            .database
            .prepare_cached(
                "SELECT id, time, tool, caller, edge, trace, coalesce(status, 'open'), error, message,
                        duration_us, output_bytes
                 FROM call
                 WHERE tool IS NOT NULL AND (?1 IS NULL OR id = ?1) AND (?2 IS NULL OR tool = ?2)
                   AND (?3 IS NULL OR caller = ?3) AND (?4 IS NULL OR coalesce(status, 'open') = ?4)
                   AND (?5 IS NULL OR time >= ?5)
                 ORDER BY time DESC, id DESC LIMIT ?6",
            )
            .map_err(failed)?;
        let rows = statement.query_map(
            params![
                filter.call.map(|call| call.to_string()),
                filter.tool,
                filter.caller,
                filter.status,
                filter.since.map(|since| since.to_string()),
                filter.limit.unwrap_or(100).min(ROWS),
            ],
            row,
        );
        rows.and_then(Iterator::collect).map_err(failed)
    }

    /// Number of unreadable records that were skipped; `verify` reports the reasons.
    pub fn skipped(&self) -> Result<u64, AuditError> {
        let sum = "SELECT coalesce(sum(skipped), 0) FROM segment";
        let skipped = self.database.query_row(sum, [], |row| row.get::<_, i64>(0));
        skipped.map(|skipped| skipped as u64).map_err(|e| AuditError::index(&self.path, e))
    }
}

fn row(row: &rusqlite::Row) -> rusqlite::Result<CallRow> {
    Ok(CallRow {
        call: row.get(0)?,
        time: row.get(1)?,
        tool: row.get(2)?,
        caller: row.get(3)?,
        edge: row.get(4)?,
        trace: row.get(5)?,
        status: row.get(6)?,
        error: row.get(7)?,
        message: row.get(8)?,
        duration_us: row.get(9)?,
        output_bytes: row.get(10)?,
    })
}

/// Indexes one segment.
struct SegmentIndexer<'a> {
    change: &'a Transaction<'a>,
    index: &'a Path,
    view: &'a dyn JsonView,
    id: String,
}

impl SegmentIndexer<'_> {
    fn read(&self, path: &Path) -> Result<(), AuditError> {
        let failed = |e| AuditError::io("read", path, e);
        let (mut offset, hash) = self.position()?;
        if offset > 0 && !ends_in(path, offset, &hash) {
            // A failed write was truncated after it had been indexed: index the segment again.
            self.run("DELETE FROM call WHERE segment = ?1", [&self.id])?;
            self.run("DELETE FROM segment WHERE id = ?1", [&self.id])?;
            offset = 0;
        }
        let Some(mut lines) = LineReader::open(path, offset).map_err(failed)? else { return Ok(()) };
        let (mut end, mut last, mut skipped) = (offset, hash, 0);
        while let Some(raw) = lines.read().map_err(failed)? {
            // An incomplete line may be a write in progress: read it the next time.
            if !raw.whole() {
                break;
            }
            end = raw.start + raw.bytes.len() as u64;
            let line = Line::read(raw.bytes);
            last = line.as_ref().map_or(String::new(), |line| line.hash.hex());
            let indexed = line.map_or(Ok(false), |line| self.index_line(&line))?;
            skipped += i64::from(!indexed);
        }
        if end > offset {
            self.run(
                "INSERT INTO segment (id, offset, hash, skipped) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (id) DO UPDATE SET offset = ?2, hash = ?3, skipped = skipped + ?4",
                params![self.id, end as i64, last, skipped],
            )?;
        }
        Ok(())
    }

    fn position(&self) -> Result<(u64, String), AuditError> {
        self.change
            .query_row("SELECT offset, hash FROM segment WHERE id = ?1", [&self.id], |row| {
                Ok((row.get::<_, i64>(0)? as u64, row.get(1)?))
            })
            .optional()
            .map(Option::unwrap_or_default)
            .map_err(|e| AuditError::index(self.index, e))
    }

    /// `false` if the record cannot be read; `verify` reports the reason.
    fn index_line(&self, line: &Line) -> Result<bool, AuditError> {
        match line.kind {
            "begin" => {
                let names = ["call", "tool", "caller", "edge", "trace"];
                let Some([call, tool, caller, edge, trace]) = self.members(line, names) else {
                    return Ok(false);
                };
                self.run(BEGIN, params![call, self.id, line.time, tool, caller, edge, trace])?;
            }
            "refused" => {
                let names = ["call", "tool", "caller", "edge", "trace", "error", "message"];
                let Some([call, tool, caller, edge, trace, error, message]) = self.members(line, names)
                else {
                    return Ok(false);
                };
                self.run(BEGIN, params![call, self.id, line.time, tool, caller, edge, trace])?;
                self.run(END, params![call, "refused", error, message, None::<i64>, None::<i64>])?;
            }
            "end" => {
                let names = ["call", "status", "error", "message"];
                let Some([call, status, error, message]) = self.members(line, names) else {
                    return Ok(false);
                };
                let mut fields = line.fields;
                let duration = fields.number(",\"duration_us\":").map(|n| n as i64);
                let output = fields.number(",\"output_bytes\":").map(|n| n as i64);
                self.run(END, params![call, status, error, message, duration, output])?;
            }
            _ => {}
        }
        Ok(true)
    }

    /// The named members; `None` if the first one, the call, is missing.
    fn members<const N: usize>(&self, line: &Line, names: [&str; N]) -> Option<[Option<String>; N]> {
        let members: [Option<String>; N] = self.view.members(&line.flat(), &names).ok()?.try_into().ok()?;
        members.first().is_some_and(Option::is_some).then_some(members)
    }

    fn run(&self, sql: &str, values: impl rusqlite::Params) -> Result<(), AuditError> {
        let run = || self.change.prepare_cached(sql)?.execute(values);
        run().map(|_| ()).map_err(|e| AuditError::index(self.index, e))
    }
}

// Either may come first: the end of a call can be indexed before the segment with its begin.
const BEGIN: &str = "INSERT INTO call (id, segment, time, tool, caller, edge, trace)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (id) DO UPDATE SET segment = ?2, time = ?3, tool = ?4, caller = ?5, edge = ?6, trace = ?7";
const END: &str = "INSERT INTO call (id, status, error, message, duration_us, output_bytes)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (id) DO UPDATE SET
        status = ?2, error = ?3, message = ?4, duration_us = ?5, output_bytes = ?6";

/// Whether the line that ends at `offset` has this hash.
fn ends_in(path: &Path, offset: u64, hash: &str) -> bool {
    let tail = format!("{hash}\"}}\n");
    let mut found = vec![0; tail.len()];
    let from = offset.saturating_sub(tail.len() as u64);
    File::open(path)
        .and_then(|file| file.read_exact_at(&mut found, from))
        .is_ok_and(|()| found == tail.as_bytes())
}

fn delete_missing_segments(change: &Transaction, ids: &[Id]) -> rusqlite::Result<()> {
    let known: Vec<String> = change
        .prepare_cached("SELECT id FROM segment")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for gone in known.iter().filter(|known| !ids.iter().any(|id| id.text().as_str() == **known)) {
        change.execute("DELETE FROM call WHERE segment = ?1", [gone])?;
        change.execute("DELETE FROM segment WHERE id = ?1", [gone])?;
    }
    Ok(())
}

fn connect(path: &Path) -> Result<Connection, AuditError> {
    let connect = || {
        let mut database = Connection::open(path)?;
        database.busy_timeout(Duration::from_secs(10))?;
        database.pragma_update(None, "journal_mode", "WAL")?;
        let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = change.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version != VERSION {
            change.execute_batch("DROP TABLE IF EXISTS call; DROP TABLE IF EXISTS segment;")?;
            change.execute_batch(TABLES)?;
            change.pragma_update(None, "user_version", VERSION)?;
        }
        change.commit()?;
        Ok(database)
    };
    connect().map_err(|e| AuditError::index(path, e))
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, Unknown};
    // `Unknown` is SQLITE_ERROR: a table that is missing or has other columns.
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase | Unknown))
}

fn remove(path: &Path) -> Result<(), AuditError> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(&name) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(AuditError::io("remove", path, e));
            }
            _ => {}
        }
    }
    Ok(())
}
