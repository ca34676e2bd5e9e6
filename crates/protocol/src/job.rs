//! Jobs: calls that have an id at once and whose result can be read later.

use crate::{Id, Identity, Payload, Progress, Timestamp, Timing};

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobState {
    /// On disk, not started.
    Pending,
    Running,
    /// Running, and waiting for input from its caller.
    InputRequired,
    Complete,
    Failed,
    Cancelled,
    /// Its worker died and the tool is not safe to repeat; how much was done is unknown.
    Unknown,
}

/// One job as the store holds it.
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
    /// The outcome, encoded by an `OutcomeCodec`; present in `Complete` and `Failed`.
    pub outcome: Option<Payload>,
    pub created: Timestamp,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    /// How often the job was started.
    pub attempt: u32,
    /// When a worker was found dead while it ran the job.
    pub deaths: Vec<Timestamp>,
    /// Whether the job may be restarted after its worker died.
    pub repeatable: bool,
    /// Cancellation was requested.
    pub cancel_requested: bool,
    pub key: Option<String>,
    pub trace: Option<String>,
    /// When a finished job may be removed.
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

    /// Whether the state is final.
    pub fn is_finished(self) -> bool {
        matches!(self, JobState::Complete | JobState::Failed | JobState::Cancelled | JobState::Unknown)
    }
}
