//! Breadth-first walk through the graph.
//!
//! A recursive query would visit a node once for each length of a path to it, since SQLite cannot drop rows
//! that differ only in depth; here each node is visited once, and memory is bounded by the limit.

use super::error::SqliteError;
use super::graph::{find, load};
use crate::bounds::LINKS_PER_NODE;
use rusqlite::{Connection, Row, params};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use toolyard_engine::stores::{Direction, GraphLink, GraphQuery, ReachedNode, StoreError, Walk};

/// Runs in a read with the same budget: SQLite stops a long statement, this stops many short ones.
pub fn walk(connection: &Connection, query: &GraphQuery) -> Result<Walk, SqliteError> {
    let walker = Walker { connection, query, deadline: Instant::now() + query.budget };
    walker.check_time()?;
    let (depths, cut) = walker.depths()?;
    let (connections, too_many) = walker.between(&depths)?;
    let mut reached: Vec<(u32, String)> = depths.into_iter().map(|(id, depth)| (depth, id)).collect();
    reached.sort();
    let (levels, ids): (Vec<u32>, Vec<String>) = reached.into_iter().unzip();
    let found = load(connection, &ids)?.into_iter().zip(levels);
    let found = found.map(|(identity, depth)| ReachedNode { identity, depth }).collect();
    Ok(Walk { found, connections, truncated: cut || too_many })
}

struct Walker<'a> {
    connection: &'a Connection,
    query: &'a GraphQuery,
    deadline: Instant,
}

impl Walker<'_> {
    /// The nearest nodes up to the limit, and whether there were more.
    fn depths(&self) -> Result<(BTreeMap<String, u32>, bool), SqliteError> {
        let starts = self.query.start.limit;
        let mut level: BTreeSet<String> =
            find(self.connection, &self.query.start, starts + 1)?.into_iter().collect();
        let mut cut = truncate(&mut level, starts) | truncate(&mut level, self.query.limit);
        let mut depths: BTreeMap<String, u32> = level.iter().map(|id| (id.clone(), 0)).collect();
        for depth in 1..=self.query.max_depth {
            if level.is_empty() || cut && depths.len() == self.query.limit {
                break;
            }
            let free = self.query.limit - depths.len();
            let mut next = BTreeSet::new();
            for id in &level {
                self.neighbours(id, |neighbour| {
                    if !depths.contains_key(&neighbour) {
                        next.insert(neighbour);
                        // One more than fits shows that something is cut off.
                        truncate(&mut next, free + 1);
                    }
                })?;
            }
            cut |= truncate(&mut next, free);
            depths.extend(next.iter().map(|id| (id.clone(), depth)));
            level = next;
        }
        Ok((depths, cut))
    }

    fn neighbours(&self, id: &str, mut visit: impl FnMut(String)) -> Result<(), SqliteError> {
        let out = "SELECT target FROM joint WHERE source = ?1";
        let into = "SELECT source FROM joint WHERE target = ?1";
        let ways: &[&str] = match self.query.direction {
            Direction::Out => &[out],
            Direction::In => &[into],
            Direction::Both => &[out, into],
        };
        for way in ways {
            self.rows(way, "", id, |row| {
                visit(row.get(0)?);
                Ok(true)
            })?;
        }
        Ok(())
    }

    /// The links between the found nodes, sorted, and whether there were more than the limit.
    fn between(&self, depths: &BTreeMap<String, u32>) -> Result<(Vec<GraphLink>, bool), SqliteError> {
        let most = self.query.limit * LINKS_PER_NODE;
        let mut links: Vec<GraphLink> = Vec::new();
        let of = "SELECT source, source_port, target, target_port, transport FROM joint WHERE source = ?1";
        for id in depths.keys() {
            self.rows(of, " ORDER BY source_port, target, target_port", id, |row| {
                let link = link(row)?;
                if depths.contains_key(&link.to) {
                    links.push(link);
                }
                Ok(links.len() <= most)
            })?;
        }
        let more = links.len() > most;
        links.truncate(most);
        Ok((links, more))
    }

    /// Passes the rows of one node and the requested transport to `visit` until it returns false.
    fn rows(
        &self,
        select: &str,
        order: &str,
        id: &str,
        mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
    ) -> Result<(), SqliteError> {
        self.check_time()?;
        let transport = self.query.transport.as_deref();
        let sql = match transport {
            Some(_) => format!("{select} AND transport = ?2{order}"),
            None => format!("{select}{order}"),
        };
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = match transport {
            Some(transport) => statement.query(params![id, transport])?,
            None => statement.query(params![id])?,
        };
        while let Some(row) = rows.next()? {
            if !visit(row)? {
                break;
            }
        }
        Ok(())
    }

    fn check_time(&self) -> Result<(), SqliteError> {
        match Instant::now() < self.deadline {
            true => Ok(()),
            // The reader fills in the budget.
            false => Err(StoreError::Budget { ms: 0 }.into()),
        }
    }
}

/// Drops the last ids beyond `most`; returns whether there were any.
fn truncate(ids: &mut BTreeSet<String>, most: usize) -> bool {
    let over = ids.len() > most;
    while ids.len() > most {
        ids.pop_last();
    }
    over
}

fn link(row: &Row<'_>) -> rusqlite::Result<GraphLink> {
    Ok(GraphLink {
        from: row.get(0)?,
        from_port: row.get(1)?,
        to: row.get(2)?,
        to_port: row.get(3)?,
        transport: row.get(4)?,
    })
}
