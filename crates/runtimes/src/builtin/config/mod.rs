//! `config.*`: the configuration in force. Secrets are never part of it.

pub mod get;

use schemars::JsonSchema;
use serde::Serialize;

/// The configuration, for those who may look but not know its types.
pub trait ConfigView: Send + Sync {
    /// Every section in force, defaults included.
    fn sections(&self) -> Vec<Section>;
}

pub struct Section {
    pub name: &'static str,
    pub settings: Vec<(&'static str, Setting)>,
}

/// One value as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Setting {
    Text(String),
    Number(u64),
    Switch(bool),
    /// Nothing is set, and there is no default either.
    Unset(()),
}
