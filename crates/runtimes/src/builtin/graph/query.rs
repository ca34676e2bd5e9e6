//! `graph.query`: everything that can be reached from some things. A typed question; there is no query language.

use super::{ConnectionInfo, IdentityInfo, Which};
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::stores::{Direction, GraphQuery};
use toolyard_protocol::{Annotations, Context, Error, Request, Tool, Violation};

pub struct Query(pub Arc<Services>);

const DEFAULT_LIMIT: u64 = 100;
const DEFAULT_DEPTH: u32 = 3;
const MAX_DEPTH: u32 = 32;
/// A walk over a very large graph is stopped after this time.
const BUDGET: Duration = Duration::from_secs(5);

#[derive(Deserialize, JsonSchema)]
pub struct QueryRequest {
    /// Where to start; everywhere without it.
    #[serde(default)]
    pub start: Which,
    /// Along connections, against them, or both; `out` without it.
    #[serde(default)]
    pub direction: Way,
    /// Only connections of this transport.
    #[serde(default)]
    pub transport: Option<String>,
    /// How many connections away; 3 without it.
    #[serde(default)]
    #[schemars(range(max = 32))]
    pub max_depth: Option<u32>,
    /// How many things at most; 100 without it.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    #[default]
    Out,
    In,
    Both,
}

#[derive(Serialize, JsonSchema)]
pub struct QueryResponse {
    /// By depth, then id.
    pub results: Vec<Reached>,
    /// Between two of the results.
    pub connections: Vec<ConnectionInfo>,
    pub count: usize,
    /// The limit cut something off.
    pub truncated: bool,
}

#[derive(Serialize, JsonSchema)]
pub struct Reached {
    pub identity: IdentityInfo,
    /// Connections on the shortest way; 0 for a start.
    pub depth: u32,
}

impl Request for QueryRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        self.start.check(violations, "/start");
        validate::labels(violations, &[("/transport", &self.transport)]);
        validate::number(violations, "/max_depth", self.max_depth.map(u64::from), 0..=MAX_DEPTH.into());
        validate::limit(violations, self.limit);
    }
}

impl Tool for Query {
    type Request = QueryRequest;
    type Response = QueryResponse;

    const NAME: &'static str = "graph.query";
    const TITLE: &'static str = "Query the graph";
    const DESCRIPTION: &'static str =
        "Gives everything that can be reached from some things, with the connections between.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const OUTPUT: usize = 16 << 20;

    async fn run(&self, request: QueryRequest, _: Context<'_>) -> Result<QueryResponse, Error> {
        let limit = request.limit.unwrap_or(DEFAULT_LIMIT) as usize;
        let query = GraphQuery {
            start: request.start.filter(limit),
            direction: match request.direction {
                Way::Out => Direction::Out,
                Way::In => Direction::In,
                Way::Both => Direction::Both,
            },
            transport: request.transport,
            max_depth: request.max_depth.unwrap_or(DEFAULT_DEPTH),
            limit,
            budget: BUDGET,
        };
        let walk = self.0.stores()?.graph.walk(query).await?;
        let reached = walk.found.into_iter();
        let results: Vec<_> =
            reached.map(|found| Reached { identity: found.identity.into(), depth: found.depth }).collect();
        let connections = walk.connections.into_iter().map(ConnectionInfo::from).collect();
        Ok(QueryResponse { count: results.len(), results, connections, truncated: walk.truncated })
    }
}
