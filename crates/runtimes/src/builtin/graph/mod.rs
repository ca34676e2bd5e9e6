//! `graph.*`: things, what they are called, and how they are joined.

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

/// A sign by which a thing is known again.
#[derive(Deserialize, Serialize, JsonSchema)]
pub struct HintInfo {
    /// `usb_serial`, `midi_name`, `alsa_card` …
    pub kind: String,
    pub value: String,
    /// 0 to 1; 1 without it.
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

/// A thing as every tool shows it.
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
    /// The same for the same four ends.
    pub connection_id: String,
    pub from_identity: String,
    pub from_port: String,
    pub to_identity: String,
    pub to_port: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}

/// Which things; every part that is given must fit.
#[derive(Default, Deserialize, JsonSchema)]
pub struct Which {
    /// Part of the name, without regard to case.
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

impl Which {
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

    fn filter(self, limit: usize) -> GraphNodeFilter {
        let Which { name, tag_namespace, tag_value, hint_kind, hint_value } = self;
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
        // A length before each part keeps two parts from being read as one.
        for part in [&connection.from, &connection.from_port, &connection.to, &connection.to_port] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let GraphLink { from, from_port, to, to_port, transport } = connection;
        let connection_id = hasher.finalize().to_hex()[..32].to_owned();
        ConnectionInfo { connection_id, from_identity: from, from_port, to_identity: to, to_port, transport }
    }
}
