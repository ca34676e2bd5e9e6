//! The graph in two maps, walked breadth-first.

use super::{lock, reply};
use crate::bounds::{self, LINKS_PER_NODE};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use toolyard_engine::stores::{
    Direction, GraphLink, GraphNode, GraphNodeFilter, GraphQuery, GraphStore, Hint, ReachedNode, StoreError,
    StoreFuture, Tag, Walk,
};
use toolyard_protocol::Timestamp;

#[derive(Default)]
pub struct Graph(Mutex<State>);

#[derive(Default)]
struct State {
    identities: BTreeMap<String, GraphNode>,
    /// Keyed by both ends and their ports; the transport is not part of the key.
    connections: BTreeMap<[String; 4], GraphLink>,
}

impl GraphStore for Graph {
    fn bind(&self, id: String, name: String, hints: Vec<Hint>, now: Timestamp) -> StoreFuture<'_, GraphNode> {
        reply(lock(&self.0).bind(id, name, hints, now))
    }

    fn tag(&self, id: String, tag: Tag) -> StoreFuture<'_, GraphNode> {
        reply(lock(&self.0).tag(&id, tag))
    }

    fn connect(&self, new: GraphLink) -> StoreFuture<'_, GraphLink> {
        reply(lock(&self.0).connect(new))
    }

    fn get(&self, id: String) -> StoreFuture<'_, Option<GraphNode>> {
        reply(Ok(lock(&self.0).identities.get(&id).cloned()))
    }

    fn find(&self, filter: GraphNodeFilter) -> StoreFuture<'_, Vec<GraphNode>> {
        reply(lock(&self.0).find(&filter))
    }

    fn walk(&self, query: GraphQuery) -> StoreFuture<'_, Walk> {
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
    ) -> Result<GraphNode, StoreError> {
        bounds::node(&id, &name, &hints, now)?;
        let fresh =
            GraphNode { id: id.clone(), name: String::new(), hints: vec![], tags: vec![], created: now };
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

    fn tag(&mut self, id: &str, tag: Tag) -> Result<GraphNode, StoreError> {
        bounds::tag(&tag)?;
        let identity = self.identities.get_mut(id).ok_or_else(|| StoreError::node_not_found(id))?;
        if !identity.tags.contains(&tag) {
            bounds::tag_count(identity.tags.len() + 1)?;
            identity.tags.push(tag);
            identity.tags.sort();
        }
        Ok(identity.clone())
    }

    fn connect(&mut self, new: GraphLink) -> Result<GraphLink, StoreError> {
        bounds::link(&new)?;
        for end in [&new.from, &new.to] {
            if !self.identities.contains_key(end) {
                return Err(StoreError::node_not_found(end));
            }
        }
        let ends = [&new.from, &new.from_port, &new.to, &new.to_port].map(String::clone);
        self.connections.insert(ends, new.clone());
        Ok(new)
    }

    fn find(&self, filter: &GraphNodeFilter) -> Result<Vec<GraphNode>, StoreError> {
        let limit = bounds::limit(filter.limit)?;
        Ok(self.matching(filter).take(limit).cloned().collect())
    }

    fn matching(&self, filter: &GraphNodeFilter) -> impl Iterator<Item = &GraphNode> {
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
        let reached_ids: BTreeSet<&str> = reached.iter().map(|(_, id)| *id).collect();
        let between = self.matching_links(query).filter(|connection| {
            reached_ids.contains(connection.from.as_str()) && reached_ids.contains(connection.to.as_str())
        });
        let mut connections: Vec<GraphLink> = between.cloned().collect();
        truncated |= connections.len() > query.limit * LINKS_PER_NODE;
        connections.truncate(query.limit * LINKS_PER_NODE);
        let found = |(depth, id): (u32, &str)| {
            self.identities.get(id).map(|identity| ReachedNode { identity: identity.clone(), depth })
        };
        Ok(Walk { found: reached.into_iter().filter_map(found).collect(), connections, truncated })
    }

    /// Every reachable node, with the length of the shortest path.
    fn depths<'a>(&'a self, starts: Vec<&'a str>, query: &'a GraphQuery) -> BTreeMap<&'a str, u32> {
        let mut depths: BTreeMap<&str, u32> = starts.iter().map(|id| (*id, 0)).collect();
        let mut level = starts;
        for depth in 1..=query.max_depth {
            let mut next = Vec::new();
            for connection in self.matching_links(query) {
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

    fn matching_links<'a>(&'a self, query: &'a GraphQuery) -> impl Iterator<Item = &'a GraphLink> {
        let wanted =
            |connection: &&GraphLink| query.transport.is_none() || connection.transport == query.transport;
        self.connections.values().filter(wanted)
    }
}

fn matches(identity: &GraphNode, filter: &GraphNodeFilter) -> bool {
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
