//! The gates, one file each. [`Engine::execute`](crate::Engine) is the list; no gate calls another.

pub mod audit;
pub mod cache;
pub mod concurrency;
pub mod rate_limit;
pub mod redact;
mod redacting_caller;
pub mod run;
pub mod size;
pub mod validate;

pub use redacting_caller::RedactingCaller;

use crate::registry::Entry;
use std::sync::Arc;
use toolyard_protocol::Outcome;

/// What a run gave, with what the gates behind it need.
pub struct Ran {
    pub entry: Arc<Entry>,
    pub outcome: Outcome,
    /// Where the result may be cached.
    pub to_store: Option<cache::ToStore>,
}
