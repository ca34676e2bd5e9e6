//! The graph: nodes with hints and tags, linked port to port.

use super::StoreFuture;
use std::time::Duration;
use toolyard_protocol::Timestamp;

pub trait GraphStore: Send + Sync {
    /// Creates or renames a node and adds hints; an existing kind and value gets the new confidence.
    /// `Invalid` when the node would have more than 64 hints.
    fn bind(&self, id: String, name: String, hints: Vec<Hint>, now: Timestamp) -> StoreFuture<'_, GraphNode>;

    /// `NotFound` when the node does not exist, `Invalid` above 64 tags. Adding a tag twice changes nothing.
    fn tag(&self, id: String, tag: Tag) -> StoreFuture<'_, GraphNode>;

    /// Links two ports; both nodes must exist (`NotFound`). An equal link is returned with the new transport.
    fn connect(&self, new: GraphLink) -> StoreFuture<'_, GraphLink>;

    fn get(&self, id: String) -> StoreFuture<'_, Option<GraphNode>>;

    /// Sorted by id. All given parts of the filter must match; both parts of a tag (hint) match the same one.
    fn find(&self, filter: GraphNodeFilter) -> StoreFuture<'_, Vec<GraphNode>>;

    /// All nodes reachable from those that match `start` (depth 0), within the depth, the limit and the time
    /// budget. `Budget` when the time is exceeded, which a zero budget always is.
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
    /// Sorted by kind and value.
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
    /// A substring of the name, ignoring ASCII case.
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
    /// Only links of this transport, in the walk and in the result.
    pub transport: Option<String>,
    pub max_depth: u32,
    pub limit: usize,
    pub budget: Duration,
}

/// A node that was reached, with the length of the shortest path.
#[derive(Clone, Debug, PartialEq)]
pub struct ReachedNode {
    pub identity: GraphNode,
    pub depth: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Walk {
    /// Sorted by depth, then id.
    pub found: Vec<ReachedNode>,
    /// Links between two nodes of `found`, regardless of the direction of the walk; sorted; at most ten times
    /// the node limit.
    pub connections: Vec<GraphLink>,
    /// Whether a limit cut off start nodes, reached nodes or links.
    pub truncated: bool,
}
