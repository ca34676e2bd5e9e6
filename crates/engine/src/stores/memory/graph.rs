//! The graph in two maps, walked level by level.

use super::{lock, reply};
use crate::stores::bounds::{self, CONNECTIONS_EACH};
use crate::stores::{
    Connection, Direction, Found, GraphQuery, GraphStore, Hint, Identity, IdentityFilter, Reply, StoreError,
    Tag, Walk,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use toolyard_protocol::Timestamp;

#[derive(Default)]
pub struct Graph(Mutex<State>);

#[derive(Default)]
struct State {
    identities: BTreeMap<String, Identity>,
    /// By the two ends; the transport is no part of what makes a connection.
    connections: BTreeMap<[String; 4], Connection>,
}

impl GraphStore for Graph {
    fn bind(&self, id: String, name: String, hints: Vec<Hint>, now: Timestamp) -> Reply<'_, Identity> {
        reply(lock(&self.0).bind(id, name, hints, now))
    }

    fn tag(&self, id: String, tag: Tag) -> Reply<'_, Identity> {
        reply(lock(&self.0).tag(&id, tag))
    }

    fn connect(&self, new: Connection) -> Reply<'_, Connection> {
        reply(lock(&self.0).connect(new))
    }

    fn get(&self, id: String) -> Reply<'_, Option<Identity>> {
        reply(Ok(lock(&self.0).identities.get(&id).cloned()))
    }

    fn find(&self, filter: IdentityFilter) -> Reply<'_, Vec<Identity>> {
        reply(lock(&self.0).find(&filter))
    }

    fn walk(&self, query: GraphQuery) -> Reply<'_, Walk> {
        reply(lock(&self.0).walk(&query))
    }
}

impl State {
    fn bind(
        &mut self,
        id: String,
        name: String,
        hints: Vec<Hint>,
        now: Timestamp,
    ) -> Result<Identity, StoreError> {
        bounds::identity(&id, &name, &hints, now)?;
        let fresh =
            Identity { id: id.clone(), name: String::new(), hints: vec![], tags: vec![], created: now };
        let mut identity = self.identities.get(&id).cloned().unwrap_or(fresh);
        identity.name = name;
        for hint in hints {
            identity.hints.retain(|old| (&old.kind, &old.value) != (&hint.kind, &hint.value));
            identity.hints.push(hint);
        }
        bounds::hint_count(identity.hints.len())?;
        identity.hints.sort_by(|a, b| (&a.kind, &a.value).cmp(&(&b.kind, &b.value)));
        self.identities.insert(id, identity.clone());
        Ok(identity)
    }

    fn tag(&mut self, id: &str, tag: Tag) -> Result<Identity, StoreError> {
        bounds::tag(&tag)?;
        let identity = self.identities.get_mut(id).ok_or_else(|| StoreError::no_identity(id))?;
        if !identity.tags.contains(&tag) {
            bounds::tag_count(identity.tags.len() + 1)?;
            identity.tags.push(tag);
            identity.tags.sort();
        }
        Ok(identity.clone())
    }

    fn connect(&mut self, new: Connection) -> Result<Connection, StoreError> {
        bounds::connection(&new)?;
        for end in [&new.from, &new.to] {
            if !self.identities.contains_key(end) {
                return Err(StoreError::no_identity(end));
            }
        }
        let ends = [&new.from, &new.from_port, &new.to, &new.to_port].map(String::clone);
        self.connections.insert(ends, new.clone());
        Ok(new)
    }

    fn find(&self, filter: &IdentityFilter) -> Result<Vec<Identity>, StoreError> {
        let limit = bounds::limit(filter.limit)?;
        Ok(self.matching(filter).take(limit).cloned().collect())
    }

    fn matching(&self, filter: &IdentityFilter) -> impl Iterator<Item = &Identity> {
        self.identities.values().filter(move |identity| matches(identity, filter))
    }

    fn walk(&self, query: &GraphQuery) -> Result<Walk, StoreError> {
        bounds::walk(query)?;
        if query.budget.is_zero() {
            return Err(StoreError::Budget { ms: 0 });
        }
        let mut starts: Vec<&str> =
            self.matching(&query.start).take(query.start.limit + 1).map(|start| start.id.as_str()).collect();
        let mut truncated = starts.len() > query.start.limit;
        starts.truncate(query.start.limit);
        let depths = self.depths(starts, query);
        let mut reached: Vec<(u32, &str)> = depths.into_iter().map(|(id, depth)| (depth, id)).collect();
        reached.sort();
        truncated |= reached.len() > query.limit;
        reached.truncate(query.limit);
        let kept: BTreeSet<&str> = reached.iter().map(|(_, id)| *id).collect();
        let between = self.passable(query).filter(|connection| {
            kept.contains(connection.from.as_str()) && kept.contains(connection.to.as_str())
        });
        let mut connections: Vec<Connection> = between.cloned().collect();
        truncated |= connections.len() > query.limit * CONNECTIONS_EACH;
        connections.truncate(query.limit * CONNECTIONS_EACH);
        let found = |(depth, id): (u32, &str)| {
            self.identities.get(id).map(|identity| Found { identity: identity.clone(), depth })
        };
        Ok(Walk { found: reached.into_iter().filter_map(found).collect(), connections, truncated })
    }

    /// Every identity that can be reached, with the length of the shortest way.
    fn depths<'a>(&'a self, starts: Vec<&'a str>, query: &'a GraphQuery) -> BTreeMap<&'a str, u32> {
        let mut depths: BTreeMap<&str, u32> = starts.iter().map(|id| (*id, 0)).collect();
        let mut level = starts;
        for depth in 1..=query.max_depth {
            let mut next = Vec::new();
            for connection in self.passable(query) {
                let (from, to) = (connection.from.as_str(), connection.to.as_str());
                for (here, there) in [(from, to, Direction::Out), (to, from, Direction::In)]
                    .into_iter()
                    .filter(|(.., way)| query.direction == *way || query.direction == Direction::Both)
                    .map(|(here, there, _)| (here, there))
                {
                    if level.contains(&here) && !depths.contains_key(there) {
                        depths.insert(there, depth);
                        next.push(there);
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            level = next;
        }
        depths
    }

    fn passable<'a>(&'a self, query: &'a GraphQuery) -> impl Iterator<Item = &'a Connection> {
        let wanted =
            |connection: &&Connection| query.transport.is_none() || connection.transport == query.transport;
        self.connections.values().filter(wanted)
    }
}

fn matches(identity: &Identity, filter: &IdentityFilter) -> bool {
    let equal =
        |wanted: &Option<String>, value: &String| wanted.as_ref().is_none_or(|wanted| wanted == value);
    let name = filter
        .name
        .as_ref()
        .is_none_or(|part| identity.name.to_ascii_lowercase().contains(&part.to_ascii_lowercase()));
    let tag = filter.tag_namespace.is_none() && filter.tag_value.is_none()
        || identity
            .tags
            .iter()
            .any(|tag| equal(&filter.tag_namespace, &tag.namespace) && equal(&filter.tag_value, &tag.value));
    let hint = filter.hint_kind.is_none() && filter.hint_value.is_none()
        || identity
            .hints
            .iter()
            .any(|hint| equal(&filter.hint_kind, &hint.kind) && equal(&filter.hint_value, &hint.value));
    name && tag && hint
}
