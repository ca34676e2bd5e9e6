//! `config.*`: the effective configuration, without secrets.

pub mod get;

use schemars::JsonSchema;
use serde::Serialize;

/// Read access to the configuration, independent of its types.
pub trait ConfigView: Send + Sync {
    /// All sections, including defaults.
    fn sections(&self) -> Vec<Section>;
}

pub struct Section {
    pub name: &'static str,
    pub settings: Vec<(&'static str, Setting)>,
}

/// The value of one setting.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Setting {
    Text(String),
    Number(u64),
    Switch(bool),
    /// Not set, and without a default.
    Unset(()),
}
