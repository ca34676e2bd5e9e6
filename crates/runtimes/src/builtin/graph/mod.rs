//! `graph.*`: identities (devices, instruments …), their tags and hints, and their connections.

pub mod bind;
pub mod connect;
pub mod context;
pub mod find;
pub mod query;
pub mod tag;

use super::validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_engine::stores::{GraphLink, GraphNode, GraphNodeFilter, Hint, Tag};
use toolyard_protocol::{Timestamp, Violation};

/// A property by which an identity can be recognized.
#[derive(Deserialize, Serialize, JsonSchema)]
pub struct HintInfo {
    /// `usb_serial`, `midi_name`, `alsa_card` …
    pub kind: String,
    pub value: String,
    /// From 0 to 1; default 1.
    #[serde(default = "default_confidence")]
    #[schemars(range(min = 0, max = 1))]
    pub confidence: f64,
}

fn default_confidence() -> f64 {
    1.0
}

#[derive(Serialize, JsonSchema)]
pub struct TagInfo {
    pub namespace: String,
    pub value: String,
}

/// An identity in the graph.
#[derive(Serialize, JsonSchema)]
pub struct IdentityInfo {
    pub id: String,
    pub name: String,
    pub hints: Vec<HintInfo>,
    pub tags: Vec<TagInfo>,
    pub created_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
pub struct ConnectionInfo {
    /// Derived from both identities and ports, so it is stable.
    pub connection_id: String,
    pub from_identity: String,
    pub from_port: String,
    pub to_identity: String,
    pub to_port: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}

/// Selects identities; all given fields must match.
#[derive(Default, Deserialize, JsonSchema)]
pub struct IdentityFilter {
    /// Part of the name; case-insensitive.
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub tag_namespace: Option<String>,
    #[serde(default)]
    pub tag_value: Option<String>,
    #[serde(default)]
    pub hint_kind: Option<String>,
    #[serde(default)]
    pub hint_value: Option<String>,
}

impl IdentityFilter {
    fn check(&self, violations: &mut Vec<Violation>, at: &str) {
        let parts = [
            ("name", &self.name),
            ("tag_namespace", &self.tag_namespace),
            ("tag_value", &self.tag_value),
            ("hint_kind", &self.hint_kind),
            ("hint_value", &self.hint_value),
        ];
        for (name, value) in parts {
            validate::labels(violations, &[(&format!("{at}/{name}"), value)]);
        }
    }

    fn with_limit(self, limit: usize) -> GraphNodeFilter {
        let IdentityFilter { name, tag_namespace, tag_value, hint_kind, hint_value } = self;
        GraphNodeFilter { name, tag_namespace, tag_value, hint_kind, hint_value, limit }
    }
}

impl From<GraphNode> for IdentityInfo {
    fn from(identity: GraphNode) -> IdentityInfo {
        let hint = |Hint { kind, value, confidence }| HintInfo { kind, value, confidence };
        let tag = |Tag { namespace, value }| TagInfo { namespace, value };
        IdentityInfo {
            id: identity.id,
            name: identity.name,
            hints: identity.hints.into_iter().map(hint).collect(),
            tags: identity.tags.into_iter().map(tag).collect(),
            created_at: identity.created,
        }
    }
}

impl From<GraphLink> for ConnectionInfo {
    fn from(connection: GraphLink) -> ConnectionInfo {
        let mut hasher = blake3::Hasher::new();
        // Length-prefixed, so that different parts cannot hash alike.
        for part in [&connection.from, &connection.from_port, &connection.to, &connection.to_port] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let GraphLink { from, from_port, to, to_port, transport } = connection;
        let connection_id = hasher.finalize().to_hex()[..32].to_owned();
        ConnectionInfo { connection_id, from_identity: from, from_port, to_identity: to, to_port, transport }
    }
}
