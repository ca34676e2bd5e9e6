//! Artifacts: one row each, and one row per tag for lookup.

use super::Database;
use super::annotations::remove_annotations;
use super::error::SqliteError;
use super::values::{IdColumn, PayloadColumn, TimeColumn};
use crate::bounds;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use std::sync::Arc;
use toolyard_engine::stores::Durability::Synced;
use toolyard_engine::stores::{
    Artifact, ArtifactFilter, ArtifactStore, Lineage, NewArtifact, StoreError, StoreFuture,
};
use toolyard_protocol::Id;

/// Tags contain no control characters, so the tags of an artifact are one column, separated by newlines.
pub const TABLES: &str = "
    CREATE TABLE artifact (
        id BLOB NOT NULL PRIMARY KEY, hash TEXT NOT NULL, size INTEGER NOT NULL, mime TEXT NOT NULL,
        tags TEXT NOT NULL, creator TEXT, parent BLOB, variation_set TEXT, created INTEGER NOT NULL, metadata BLOB
    ) STRICT;
    CREATE INDEX artifact_hash ON artifact (hash);
    CREATE INDEX artifact_creator ON artifact (creator, id);
    CREATE TABLE artifact_tag (tag TEXT NOT NULL, artifact BLOB NOT NULL, PRIMARY KEY (tag, artifact))
        STRICT, WITHOUT ROWID;";

const COLUMNS: &str = "id, hash, size, mime, tags, creator, parent, variation_set, created, metadata";

pub struct Artifacts(Arc<Database>);

impl Artifacts {
    pub fn new(database: Arc<Database>) -> Artifacts {
        Artifacts(database)
    }
}

impl ArtifactStore for Artifacts {
    fn create(&self, new: NewArtifact) -> StoreFuture<'_, Artifact> {
        let new = Artifact::from(new);
        Box::pin(async {
            bounds::artifact(&new)?;
            self.0.write(Synced, move |connection| create(connection, new)).await
        })
    }

    fn get(&self, id: Id) -> StoreFuture<'_, Option<Artifact>> {
        Box::pin(self.0.read(move |connection| get(connection, id)))
    }

    fn list(&self, filter: ArtifactFilter) -> StoreFuture<'_, Vec<Artifact>> {
        Box::pin(async {
            bounds::artifact_filter(&filter)?;
            self.0.read(move |connection| list(connection, &filter)).await
        })
    }

    fn hashes(&self, after: Option<String>, limit: usize) -> StoreFuture<'_, Vec<String>> {
        Box::pin(async move {
            let limit = bounds::limit(limit)?;
            self.0.read(move |connection| hashes(connection, after.as_deref(), limit)).await
        })
    }

    fn remove(&self, id: Id) -> StoreFuture<'_, bool> {
        Box::pin(self.0.write(Synced, move |connection| remove(connection, id)))
    }
}

pub fn exists(connection: &Connection, id: Id) -> Result<bool, SqliteError> {
    Ok(connection.prepare_cached("SELECT 1 FROM artifact WHERE id = ?1")?.exists([IdColumn(id)])?)
}

fn create(connection: &Connection, new: Artifact) -> Result<Artifact, SqliteError> {
    if let Some(old) = get(connection, new.id)? {
        return if old == new { Ok(old) } else { Err(StoreError::id_taken("artifact", new.id).into()) };
    }
    let Lineage { tags, creator, parent, variation_set } = &new.lineage;
    let sql = format!("INSERT INTO artifact ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
    connection.prepare_cached(&sql)?.execute(params![
        IdColumn(new.id),
        new.hash,
        new.size as i64,
        new.mime,
        tags.join("\n"),
        creator,
        parent.map(IdColumn),
        variation_set,
        TimeColumn(new.created),
        new.metadata.clone().map(PayloadColumn),
    ])?;
    let mut insert = connection.prepare_cached("INSERT INTO artifact_tag (tag, artifact) VALUES (?1, ?2)")?;
    for tag in tags {
        insert.execute(params![tag, IdColumn(new.id)])?;
    }
    Ok(new)
}

fn get(connection: &Connection, id: Id) -> Result<Option<Artifact>, SqliteError> {
    let sql = format!("SELECT {COLUMNS} FROM artifact WHERE id = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([IdColumn(id)], artifact).optional()?)
}

fn list(connection: &Connection, filter: &ArtifactFilter) -> Result<Vec<Artifact>, SqliteError> {
    let (since, before) = (filter.since.map(TimeColumn), filter.before.map(IdColumn));
    let limit = filter.limit as i64;
    let mut sql = format!("SELECT {COLUMNS} FROM artifact WHERE true");
    let mut values: Vec<&dyn ToSql> = Vec::new();
    if let Some(tag) = &filter.tag {
        sql += " AND id IN (SELECT artifact FROM artifact_tag WHERE tag = ?)";
        values.push(tag);
    }
    if let Some(creator) = &filter.creator {
        sql += " AND creator = ?";
        values.push(creator);
    }
    if let Some(since) = &since {
        sql += " AND created >= ?";
        values.push(since);
    }
    if let Some(before) = &before {
        sql += " AND id < ?";
        values.push(before);
    }
    sql += " ORDER BY id DESC LIMIT ?";
    values.push(&limit);
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map(&values[..], artifact)?.collect::<Result<_, _>>()?)
}

fn hashes(connection: &Connection, after: Option<&str>, limit: usize) -> Result<Vec<String>, SqliteError> {
    let sql = "SELECT DISTINCT hash FROM artifact WHERE hash > ?1 ORDER BY hash LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    // No hash is empty, so every hash sorts after the empty string.
    let rows = statement.query_map(params![after.unwrap_or_default(), limit as i64], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn remove(connection: &Connection, id: Id) -> Result<bool, SqliteError> {
    let Some(artifact) = get(connection, id)? else { return Ok(false) };
    remove_annotations(connection, id)?;
    let mut delete =
        connection.prepare_cached("DELETE FROM artifact_tag WHERE tag = ?1 AND artifact = ?2")?;
    for tag in &artifact.lineage.tags {
        delete.execute(params![tag, IdColumn(id)])?;
    }
    connection.prepare_cached("DELETE FROM artifact WHERE id = ?1")?.execute([IdColumn(id)])?;
    Ok(true)
}

fn artifact(row: &Row<'_>) -> rusqlite::Result<Artifact> {
    let tags: String = row.get(4)?;
    Ok(Artifact {
        id: row.get::<_, IdColumn>(0)?.0,
        hash: row.get(1)?,
        size: row.get::<_, i64>(2)? as u64,
        mime: row.get(3)?,
        lineage: Lineage {
            tags: tags.lines().map(str::to_owned).collect(),
            creator: row.get(5)?,
            parent: row.get::<_, Option<IdColumn>>(6)?.map(|parent| parent.0),
            variation_set: row.get(7)?,
        },
        created: row.get::<_, TimeColumn>(8)?.0,
        metadata: row.get::<_, Option<PayloadColumn>>(9)?.map(|metadata| metadata.0),
    })
}
