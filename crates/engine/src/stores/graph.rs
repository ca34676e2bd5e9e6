//! A graph of things: identities with hints and tags, joined port to port.

use super::StoreFuture;
use std::time::Duration;
use toolyard_protocol::Timestamp;

pub trait GraphStore: Send + Sync {
    /// Makes or renames an identity and adds hints; an equal kind and value takes the new confidence. `Invalid` when
    /// it would have more than 64 hints; the same for its tags.
    fn bind(&self, id: String, name: String, hints: Vec<Hint>, now: Timestamp) -> StoreFuture<'_, GraphNode>;

    /// `NotFound` when the identity does not exist. Adding a tag twice is no change.
    fn tag(&self, id: String, tag: Tag) -> StoreFuture<'_, GraphNode>;

    /// Joins two ports; both identities must exist (`NotFound`). An equal connection is given back, with the new
    /// transport.
    fn connect(&self, new: GraphLink) -> StoreFuture<'_, GraphLink>;

    fn get(&self, id: String) -> StoreFuture<'_, Option<GraphNode>>;

    /// By id. Every part of the filter that is given must fit; the two parts of a tag (of a hint) fit the same one.
    fn find(&self, filter: GraphNodeFilter) -> StoreFuture<'_, Vec<GraphNode>>;

    /// Everything that can be reached from what `start` finds (depth 0), within the depth, the limit and the time.
    /// `Budget` when the time is used up; a budget of nothing always is.
    fn walk(&self, query: GraphQuery) -> StoreFuture<'_, Walk>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hint {
    pub kind: String,
    pub value: String,
    /// 0 to 1.
    pub confidence: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    pub namespace: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GraphNode {
    pub id: String,
    pub name: String,
    /// By kind and value.
    pub hints: Vec<Hint>,
    /// Sorted.
    pub tags: Vec<Tag>,
    pub created: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GraphLink {
    pub from: String,
    pub from_port: String,
    pub to: String,
    pub to_port: String,
    pub transport: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct GraphNodeFilter {
    /// Part of the name, without case (ASCII).
    pub name: Option<String>,
    pub tag_namespace: Option<String>,
    pub tag_value: Option<String>,
    pub hint_kind: Option<String>,
    pub hint_value: Option<String>,
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Out,
    In,
    Both,
}

#[derive(Clone, Debug)]
pub struct GraphQuery {
    pub start: GraphNodeFilter,
    pub direction: Direction,
    /// Only connections of this transport, in the walk and in the answer.
    pub transport: Option<String>,
    pub max_depth: u32,
    pub limit: usize,
    pub budget: Duration,
}

/// One identity that was reached, by the shortest way.
#[derive(Clone, Debug, PartialEq)]
pub struct ReachedNode {
    pub identity: GraphNode,
    pub depth: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Walk {
    /// By depth, then id.
    pub found: Vec<ReachedNode>,
    /// Between two identities of `found`, whatever the direction of the walk; sorted; at most ten for each identity
    /// that the limit allows.
    pub connections: Vec<GraphLink>,
    /// A limit cut something off: of the starts, of what was found or of the connections.
    pub truncated: bool,
}
