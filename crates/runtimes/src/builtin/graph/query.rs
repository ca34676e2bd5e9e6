//! `graph.query`: returns all identities reachable from a start. There is no query language.

use super::{ConnectionInfo, IdentityFilter, IdentityInfo};
use crate::builtin::Services;
use crate::builtin::validate::{self, Limit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::stores::{Direction, GraphQuery};
use toolyard_protocol::{Annotations, Context, Error, Request, Tool, Violation};

pub struct Query(pub Arc<Services>);

const DEFAULT_DEPTH: u32 = 3;
const MAX_DEPTH: u32 = 32;
/// Time limit of one query.
const BUDGET: Duration = Duration::from_secs(5);

#[derive(Deserialize, JsonSchema)]
pub struct QueryRequest {
    /// Identities to start from; default all.
    #[serde(default)]
    pub start: IdentityFilter,
    /// Follow connections forwards, backwards, or both; default `out`.
    #[serde(default)]
    pub direction: QueryDirection,
    /// Only connections with this transport.
    #[serde(default)]
    pub transport: Option<String>,
    /// Maximum number of connections to follow; default 3.
    #[serde(default)]
    #[schemars(range(max = 32))]
    pub max_depth: Option<u32>,
    /// Maximum number of identities; default 100.
    #[serde(default)]
    pub limit: Limit,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryDirection {
    #[default]
    Out,
    In,
    Both,
}

#[derive(Serialize, JsonSchema)]
pub struct QueryResponse {
    /// Sorted by depth, then by id.
    pub results: Vec<ReachedIdentity>,
    /// Connections between two results.
    pub connections: Vec<ConnectionInfo>,
    pub count: usize,
    /// More results exist than the limit allows.
    pub truncated: bool,
}

#[derive(Serialize, JsonSchema)]
pub struct ReachedIdentity {
    pub identity: IdentityInfo,
    /// Length of the shortest path from a start; 0 for a start.
    pub depth: u32,
}

impl Request for QueryRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        self.start.check(violations, "/start");
        validate::labels(violations, &[("/transport", &self.transport)]);
        validate::number(violations, "/max_depth", self.max_depth.map(u64::from), 0..=MAX_DEPTH.into());
        self.limit.check(violations);
    }
}

impl Tool for Query {
    type Request = QueryRequest;
    type Response = QueryResponse;

    const NAME: &'static str = "graph.query";
    const TITLE: &'static str = "Query the graph";
    const DESCRIPTION: &'static str =
        "Returns all identities that can be reached from a start, and the connections between them.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const OUTPUT: usize = 16 << 20;

    async fn run(&self, request: QueryRequest, _: Context<'_>) -> Result<QueryResponse, Error> {
        let limit = request.limit.get();
        let query = GraphQuery {
            start: request.start.with_limit(limit),
            direction: match request.direction {
                QueryDirection::Out => Direction::Out,
                QueryDirection::In => Direction::In,
                QueryDirection::Both => Direction::Both,
            },
            transport: request.transport,
            max_depth: request.max_depth.unwrap_or(DEFAULT_DEPTH),
            limit,
            budget: BUDGET,
        };
        let walk = self.0.stores()?.graph.walk(query).await?;
        let reached = walk.found.into_iter();
        let results: Vec<_> = reached
            .map(|found| ReachedIdentity { identity: found.identity.into(), depth: found.depth })
            .collect();
        let connections = walk.connections.into_iter().map(ConnectionInfo::from).collect();
        Ok(QueryResponse { count: results.len(), results, connections, truncated: walk.truncated })
    }
}
