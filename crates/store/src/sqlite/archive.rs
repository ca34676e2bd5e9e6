//! The archive: append-only rows with a full text index.

use super::Database;
use super::annotations::indexed;
use super::error::SqliteError;
use super::values::{IdColumn, PayloadColumn, TimeColumn};
use crate::bounds::{self, MAX_ARCHIVE_PAGE};
use crate::full_text::TextQuery;
use rusqlite::{Connection, Row, ToSql, params};
use std::sync::Arc;
use toolyard_engine::stores::Durability::Synced;
use toolyard_engine::stores::{ArchiveEntry, ArchiveQuery, ArchiveStore, StoreFuture};

/// The body is the last column, so that sorting by id does not read it.
pub const TABLES: &str = "
    CREATE TABLE archive (
        seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, stream TEXT NOT NULL, at INTEGER NOT NULL,
        text TEXT NOT NULL, body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX archive_stream ON archive (stream, id);
    CREATE VIRTUAL TABLE archive_words USING fts5 (
        words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
    );";

pub struct Archive(Arc<Database>);

impl Archive {
    pub fn new(database: Arc<Database>) -> Archive {
        Archive(database)
    }
}

impl ArchiveStore for Archive {
    fn append(&self, entry: ArchiveEntry) -> StoreFuture<'_, ()> {
        Box::pin(async {
            bounds::archive(&entry)?;
            self.0.write(Synced, move |connection| append(connection, entry)).await
        })
    }

    fn read(&self, query: ArchiveQuery) -> StoreFuture<'_, Vec<ArchiveEntry>> {
        Box::pin(async {
            bounds::limit(query.limit)?;
            let words = query.words.as_deref().map(TextQuery::parse).transpose()?;
            self.0.read(move |connection| read(connection, &query, words.as_ref())).await
        })
    }
}

fn append(connection: &Connection, entry: ArchiveEntry) -> Result<(), SqliteError> {
    let sql = "INSERT OR IGNORE INTO archive (id, stream, at, text, body) VALUES (?1, ?2, ?3, ?4, ?5)";
    let (id, at, body) = (IdColumn(entry.id), TimeColumn(entry.at), PayloadColumn(entry.body));
    let added = connection.prepare_cached(sql)?.execute(params![id, entry.stream, at, entry.text, body])?;
    if added == 1 {
        connection
            .prepare_cached("INSERT INTO archive_words (rowid, words) VALUES (last_insert_rowid(), ?1)")?
            .execute([indexed([entry.text.as_str()])])?;
    }
    Ok(())
}

fn read(
    connection: &Connection,
    query: &ArchiveQuery,
    words: Option<&TextQuery>,
) -> Result<Vec<ArchiveEntry>, SqliteError> {
    let mut load =
        connection.prepare_cached("SELECT id, stream, at, text, body FROM archive WHERE seq = ?1")?;
    let mut page: Vec<ArchiveEntry> = Vec::new();
    let mut bytes = 0;
    for seq in matching(connection, query, words)? {
        let entry = load.query_row([seq], entry)?;
        bytes += entry.body.len() + entry.text.len();
        if bytes > MAX_ARCHIVE_PAGE && !page.is_empty() {
            break;
        }
        page.push(entry);
    }
    Ok(page)
}

fn matching(
    connection: &Connection,
    query: &ArchiveQuery,
    words: Option<&TextQuery>,
) -> Result<Vec<i64>, SqliteError> {
    let (fts, after, limit) = (words.map(TextQuery::to_fts), query.after.map(IdColumn), query.limit as i64);
    let mut sql = String::from("SELECT seq FROM archive WHERE true");
    let mut values: Vec<&dyn ToSql> = Vec::new();
    if let Some(stream) = &query.stream {
        sql += " AND stream = ?";
        values.push(stream);
    }
    if let Some(after) = &after {
        sql += " AND id > ?";
        values.push(after);
    }
    if let Some(fts) = &fts {
        sql += " AND seq IN (SELECT rowid FROM archive_words WHERE archive_words MATCH ?)";
        values.push(fts);
    }
    sql += " ORDER BY id LIMIT ?";
    values.push(&limit);
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map(&values[..], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<ArchiveEntry> {
    Ok(ArchiveEntry {
        id: row.get::<_, IdColumn>(0)?.0,
        stream: row.get(1)?,
        at: row.get::<_, TimeColumn>(2)?.0,
        text: row.get(3)?,
        body: row.get::<_, PayloadColumn>(4)?.0,
    })
}
