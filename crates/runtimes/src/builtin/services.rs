//! What built-in tools work with. Made once, shared by all of them.

use super::config::ConfigView;
use std::sync::{Arc, Weak};
use toolyard_engine::Registry;
use toolyard_engine::clock::Clock;

pub struct Services {
    /// Weak: the registry holds the tools.
    pub registry: Weak<Registry>,
    pub config: Arc<dyn ConfigView>,
    pub clock: Arc<dyn Clock>,
}
