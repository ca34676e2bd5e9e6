//! Things that happened, numbered so that a listener sees a gap.

use crate::{Payload, Timestamp};

/// One event of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// From 1, without holes while the event is in the log.
    pub seq: u64,
    pub at: Timestamp,
    /// `job_state_changed`, `progress`, `artifact_created`, `log`, `config_update`, `shutdown` …
    pub kind: String,
    /// What it is about, for those who follow one thing: a job id, an artifact id.
    pub subject: Option<String>,
    /// JSON.
    pub data: Payload,
}
