//! The graph: nodes (`identity`) with hints and tags, and links (`joint`) indexed in both directions.

use super::Database;
use super::error::SqliteError;
use super::values::TimeColumn;
use super::walk::walk;
use crate::bounds;
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use std::sync::Arc;
use toolyard_engine::stores::Durability::Synced;
use toolyard_engine::stores::{
    GraphLink, GraphNode, GraphNodeFilter, GraphQuery, GraphStore, Hint, StoreError, StoreFuture, Tag, Walk,
};
use toolyard_protocol::Timestamp;

pub const TABLES: &str = "
    CREATE TABLE identity (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, created INTEGER NOT NULL)
        STRICT, WITHOUT ROWID;
    CREATE TABLE identity_hint (
        identity TEXT NOT NULL, kind TEXT NOT NULL, value TEXT NOT NULL, confidence REAL NOT NULL,
        PRIMARY KEY (identity, kind, value)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX identity_hint_kind ON identity_hint (kind, value, identity);
    CREATE INDEX identity_hint_value ON identity_hint (value, identity);
    CREATE TABLE identity_tag (
        identity TEXT NOT NULL, namespace TEXT NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY (identity, namespace, value)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX identity_tag_namespace ON identity_tag (namespace, value, identity);
    CREATE INDEX identity_tag_value ON identity_tag (value, identity);
    CREATE TABLE joint (
        source TEXT NOT NULL, source_port TEXT NOT NULL, target TEXT NOT NULL, target_port TEXT NOT NULL,
        transport TEXT, PRIMARY KEY (source, source_port, target, target_port)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX joint_out ON joint (source, transport, target);
    CREATE INDEX joint_in ON joint (target, transport, source);";

pub struct Graph(Arc<Database>);

impl Graph {
    pub fn new(database: Arc<Database>) -> Graph {
        Graph(database)
    }
}

impl GraphStore for Graph {
    fn bind(&self, id: String, name: String, hints: Vec<Hint>, now: Timestamp) -> StoreFuture<'_, GraphNode> {
        Box::pin(async move {
            bounds::node(&id, &name, &hints, now)?;
            self.0.write(Synced, move |connection| bind(connection, &id, &name, &hints, now)).await
        })
    }

    fn tag(&self, id: String, new: Tag) -> StoreFuture<'_, GraphNode> {
        Box::pin(async {
            bounds::tag(&new)?;
            self.0.write(Synced, move |connection| tag(connection, &id, &new)).await
        })
    }

    fn connect(&self, new: GraphLink) -> StoreFuture<'_, GraphLink> {
        Box::pin(async {
            bounds::link(&new)?;
            self.0.write(Synced, move |connection| connect(connection, new)).await
        })
    }

    fn get(&self, id: String) -> StoreFuture<'_, Option<GraphNode>> {
        Box::pin(self.0.read(move |connection| get(connection, &id)))
    }

    fn find(&self, filter: GraphNodeFilter) -> StoreFuture<'_, Vec<GraphNode>> {
        Box::pin(async {
            let limit = bounds::limit(filter.limit)?;
            self.0.read(move |connection| load(connection, &find(connection, &filter, limit)?)).await
        })
    }

    fn walk(&self, query: GraphQuery) -> StoreFuture<'_, Walk> {
        Box::pin(async {
            bounds::walk(&query)?;
            self.0.read_within(query.budget, move |connection| walk(connection, &query)).await
        })
    }
}

/// The ids of matching nodes, sorted. Only the given parts of the filter become part of the statement, so
/// that each can use its index.
pub fn find(
    connection: &Connection,
    filter: &GraphNodeFilter,
    limit: usize,
) -> Result<Vec<String>, SqliteError> {
    let mut sql = String::from("SELECT id FROM identity WHERE true");
    let mut values: Vec<&dyn ToSql> = Vec::new();
    if let Some(name) = &filter.name {
        sql += " AND instr(lower(name), lower(?)) > 0";
        values.push(name);
    }
    let parts = [
        ("identity_tag", [("namespace", &filter.tag_namespace), ("value", &filter.tag_value)]),
        ("identity_hint", [("kind", &filter.hint_kind), ("value", &filter.hint_value)]),
    ];
    for (table, columns) in parts {
        let given: Vec<_> =
            columns.iter().filter_map(|(name, value)| value.as_ref().map(|v| (name, v))).collect();
        if given.is_empty() {
            continue;
        }
        let wanted: Vec<String> = given.iter().map(|(name, _)| format!("{name} = ?")).collect();
        sql += &format!(" AND id IN (SELECT identity FROM {table} WHERE {})", wanted.join(" AND "));
        values.extend(given.iter().map(|(_, value)| *value as &dyn ToSql));
    }
    sql += " ORDER BY id LIMIT ?";
    let limit = limit as i64;
    values.push(&limit);
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map(&values[..], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// The nodes that exist, in the order of the ids.
pub fn load(connection: &Connection, ids: &[String]) -> Result<Vec<GraphNode>, SqliteError> {
    ids.iter().filter_map(|id| get(connection, id).transpose()).collect()
}

fn get(connection: &Connection, id: &str) -> Result<Option<GraphNode>, SqliteError> {
    let known = connection
        .prepare_cached("SELECT name, created FROM identity WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get::<_, TimeColumn>(1)?.0)))
        .optional()?;
    let Some((name, created)) = known else { return Ok(None) };
    let mut hints = connection.prepare_cached(
        "SELECT kind, value, confidence FROM identity_hint WHERE identity = ?1 ORDER BY kind, value",
    )?;
    let hints = hints
        .query_map([id], |row| Ok(Hint { kind: row.get(0)?, value: row.get(1)?, confidence: row.get(2)? }))?
        .collect::<Result<_, _>>()?;
    let mut tags = connection.prepare_cached(
        "SELECT namespace, value FROM identity_tag WHERE identity = ?1 ORDER BY namespace, value",
    )?;
    let tags = tags
        .query_map([id], |row| Ok(Tag { namespace: row.get(0)?, value: row.get(1)? }))?
        .collect::<Result<_, _>>()?;
    Ok(Some(GraphNode { id: id.to_owned(), name, hints, tags, created }))
}

/// A node that must exist.
fn require(connection: &Connection, id: &str) -> Result<GraphNode, SqliteError> {
    get(connection, id)?.ok_or_else(|| StoreError::node_not_found(id).into())
}

fn bind(
    connection: &Connection,
    id: &str,
    name: &str,
    hints: &[Hint],
    now: Timestamp,
) -> Result<GraphNode, SqliteError> {
    let sql = "INSERT INTO identity (id, name, created) VALUES (?1, ?2, ?3)
        ON CONFLICT (id) DO UPDATE SET name = excluded.name";
    connection.prepare_cached(sql)?.execute(params![id, name, TimeColumn(now)])?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO identity_hint (identity, kind, value, confidence) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (identity, kind, value) DO UPDATE SET confidence = excluded.confidence",
    )?;
    for hint in hints {
        insert.execute(params![id, hint.kind, hint.value, hint.confidence])?;
    }
    let node = require(connection, id)?;
    bounds::hint_count(node.hints.len())?;
    Ok(node)
}

fn tag(connection: &Connection, id: &str, tag: &Tag) -> Result<GraphNode, SqliteError> {
    require(connection, id)?;
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO identity_tag (identity, namespace, value) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![id, tag.namespace, tag.value])?;
    let node = require(connection, id)?;
    bounds::tag_count(node.tags.len())?;
    Ok(node)
}

fn connect(connection: &Connection, new: GraphLink) -> Result<GraphLink, SqliteError> {
    for end in [&new.from, &new.to] {
        let known = connection.prepare_cached("SELECT 1 FROM identity WHERE id = ?1")?.exists([end])?;
        if !known {
            return Err(StoreError::node_not_found(end).into());
        }
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO joint (source, source_port, target, target_port, transport)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![new.from, new.from_port, new.to, new.to_port, new.transport])?;
    Ok(new)
}
