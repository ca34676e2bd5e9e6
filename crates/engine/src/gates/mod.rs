//! The gates, one file each. [`Engine::execute`](crate::Engine) is the list; no gate calls another.

pub mod audit;
pub mod authorise;
pub mod cache;
pub mod concurrency;
pub mod rate_limit;
pub mod redact;
mod redacting_caller;
pub mod run;
pub mod validate;

pub use redacting_caller::RedactingCaller;

use crate::registry::Entry;
use std::sync::Arc;
use toolyard_protocol::Outcome;

/// The outcome of a run, with what the later gates need.
pub struct Ran {
    pub entry: Arc<Entry>,
    pub outcome: Outcome,
    /// Present when the result may be cached.
    pub to_store: Option<cache::ToStore>,
    /// It has passed the output schema before: a cached result, or that of another job with the same key.
    pub is_validated: bool,
}
