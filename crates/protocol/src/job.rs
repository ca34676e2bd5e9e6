//! Work with an outcome: it has an id at once, and its result can be asked for later.

use crate::{Id, Identity, Payload, Progress, Timestamp, Timing};

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobState {
    /// On disk, not started.
    Pending,
    Running,
    /// Running, and waiting for an answer of its caller.
    InputRequired,
    Complete,
    Failed,
    Cancelled,
    /// Its worker died and the tool is not safe to repeat: no one knows how far it came.
    Unknown,
}

/// One job as a store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: Id,
    /// Canonical name.
    pub tool: String,
    pub arguments: Payload,
    pub identity: Identity,
    pub timing: Timing,
    pub state: JobState,
    pub progress: Option<Progress>,
    /// The outcome as `wire` writes it for keeping; present in `Complete` and `Failed`.
    pub outcome: Option<Payload>,
    pub created: Timestamp,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    /// Starts of the work so far.
    pub attempt: u32,
    /// Whether the work may be started again after its worker died.
    pub repeatable: bool,
    /// Someone asked for it to stop.
    pub cancel_requested: bool,
    pub key: Option<String>,
    pub trace: Option<String>,
    /// When the row may be removed, once it has ended.
    pub expires: Option<Timestamp>,
}

impl JobState {
    pub const ALL: [JobState; 7] = [
        JobState::Pending,
        JobState::Running,
        JobState::InputRequired,
        JobState::Complete,
        JobState::Failed,
        JobState::Cancelled,
        JobState::Unknown,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Pending => "pending",
            JobState::Running => "running",
            JobState::InputRequired => "input_required",
            JobState::Complete => "complete",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
            JobState::Unknown => "unknown",
        }
    }

    pub fn parse(text: &str) -> Option<JobState> {
        JobState::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Nothing changes any more.
    pub fn is_finished(self) -> bool {
        matches!(self, JobState::Complete | JobState::Failed | JobState::Cancelled | JobState::Unknown)
    }
}
