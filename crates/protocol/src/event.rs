//! Events, numbered so that a subscriber can detect a gap.

use crate::{Payload, Timestamp};

/// One event of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Starts at 1 and has no gaps among the events in the log.
    pub seq: u64,
    pub at: Timestamp,
    /// `job_state_changed`, `progress`, `artifact_created`, `log`, `config_update`, `shutdown` …
    pub kind: String,
    /// The id of the job or artifact concerned, for subscribers to one of them.
    pub subject: Option<String>,
    /// JSON.
    pub data: Payload,
}
