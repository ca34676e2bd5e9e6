//! Annotations with a full text index.
//!
//! The index gets words that `full_text` has already tokenized and folded, separated by spaces; FTS5's
//! `ascii` tokenizer only splits them again. Search results therefore do not depend on the SQLite version.

use super::Database;
use super::artifacts::exists;
use super::error::SqliteError;
use super::values::{IdColumn, TimeColumn};
use crate::bounds;
use crate::full_text::{TextQuery, tokenize};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::Arc;
use toolyard_engine::stores::Durability::Synced;
use toolyard_engine::stores::{Annotation, AnnotationStore, NewAnnotation, StoreError, StoreFuture};
use toolyard_protocol::Id;

pub const TABLES: &str = "
    CREATE TABLE annotation (
        seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, artifact BLOB NOT NULL, message TEXT NOT NULL,
        source TEXT, vibe TEXT, created INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX annotation_of ON annotation (artifact, id);
    CREATE VIRTUAL TABLE annotation_words USING fts5 (
        words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
    );";

const COLUMNS: &str = "id, artifact, message, source, vibe, created";

pub struct Annotations(Arc<Database>);

impl Annotations {
    pub fn new(database: Arc<Database>) -> Annotations {
        Annotations(database)
    }
}

impl AnnotationStore for Annotations {
    fn add(&self, new: NewAnnotation) -> StoreFuture<'_, Annotation> {
        Box::pin(async {
            bounds::annotation(&new)?;
            self.0.write(Synced, move |connection| add(connection, new.into())).await
        })
    }

    fn for_artifact(&self, artifact: Id, limit: usize) -> StoreFuture<'_, Vec<Annotation>> {
        Box::pin(async move {
            let limit = bounds::limit(limit)?;
            self.0.read(move |connection| for_artifact(connection, artifact, limit)).await
        })
    }

    fn search(&self, query: &str, limit: usize) -> StoreFuture<'_, Vec<Annotation>> {
        let checked = bounds::limit(limit).and_then(|_| TextQuery::parse(query));
        Box::pin(async move {
            let words = checked?;
            self.0.read(move |connection| search(connection, &words, limit)).await
        })
    }
}

pub fn remove_annotations(connection: &Connection, artifact: Id) -> Result<(), SqliteError> {
    let mut unindex = connection.prepare_cached(
        "DELETE FROM annotation_words WHERE rowid IN (SELECT seq FROM annotation WHERE artifact = ?1)",
    )?;
    unindex.execute([IdColumn(artifact)])?;
    connection.prepare_cached("DELETE FROM annotation WHERE artifact = ?1")?.execute([IdColumn(artifact)])?;
    Ok(())
}

/// The words of the texts, as indexed.
pub fn indexed<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    tokenize(texts).into_iter().collect::<Vec<_>>().join(" ")
}

fn add(connection: &Connection, new: Annotation) -> Result<Annotation, SqliteError> {
    if !exists(connection, new.artifact)? {
        return Err(StoreError::NotFound { what: "artifact", id: new.artifact.to_string() }.into());
    }
    let same = format!("SELECT {COLUMNS} FROM annotation WHERE id = ?1");
    let old = connection.prepare_cached(&same)?.query_row([IdColumn(new.id)], annotation).optional()?;
    if let Some(old) = old {
        return if old == new { Ok(old) } else { Err(StoreError::id_taken("annotation", new.id).into()) };
    }
    let sql = format!("INSERT INTO annotation ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
    let (id, artifact, created) = (IdColumn(new.id), IdColumn(new.artifact), TimeColumn(new.created));
    connection.prepare_cached(&sql)?.execute(params![
        id,
        artifact,
        new.message,
        new.source,
        new.vibe,
        created
    ])?;
    connection
        .prepare_cached("INSERT INTO annotation_words (rowid, words) VALUES (last_insert_rowid(), ?1)")?
        .execute([indexed(new.texts())])?;
    Ok(new)
}

fn for_artifact(connection: &Connection, artifact: Id, limit: usize) -> Result<Vec<Annotation>, SqliteError> {
    let sql = format!("SELECT {COLUMNS} FROM annotation WHERE artifact = ?1 ORDER BY id LIMIT ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![IdColumn(artifact), limit as i64], annotation)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Selects ids first, so that only ids are sorted.
fn search(connection: &Connection, words: &TextQuery, limit: usize) -> Result<Vec<Annotation>, SqliteError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM annotation WHERE id IN (
            SELECT id FROM annotation WHERE seq IN (
                SELECT rowid FROM annotation_words WHERE annotation_words MATCH ?1
            ) ORDER BY id DESC LIMIT ?2
        ) ORDER BY id DESC"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![words.to_fts(), limit as i64], annotation)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn annotation(row: &Row<'_>) -> rusqlite::Result<Annotation> {
    Ok(Annotation {
        id: row.get::<_, IdColumn>(0)?.0,
        artifact: row.get::<_, IdColumn>(1)?.0,
        message: row.get(2)?,
        source: row.get(3)?,
        vibe: row.get(4)?,
        created: row.get::<_, TimeColumn>(5)?.0,
    })
}
