//! `job.*`: the caller's own jobs. Jobs of other callers are reported as not found.

pub mod cancel;
pub mod list;
pub mod poll;
pub mod sleep;
pub mod status;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_protocol::{Error, Id, Job, JobState, Payload, Timestamp};
use toolyard_wire::outcome;
use toolyard_wire::typed::AnyJson;

/// Maximum wait of one call.
pub const MAX_WAIT_MS: u64 = 30_000;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    Running,
    InputRequired,
    Complete,
    Failed,
    Cancelled,
    /// The worker died; it is unknown how far the job got.
    Unknown,
}

/// A job and its state.
#[derive(Serialize, JsonSchema)]
pub struct JobInfo {
    pub job_id: Id,
    pub status: Status,
    /// The tool's canonical name.
    pub source: String,
    pub timing: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressInfo>,
    pub created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// When the job is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Number of attempts so far.
    pub attempt: u32,
    pub cancel_requested: bool,
    /// The tool's result; only in `job.status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<AnyJson>,
    /// Why the job failed; only in `job.status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
}

#[derive(Serialize, JsonSchema)]
pub struct ProgressInfo {
    /// From 0 to `total`, or to 100 without `total`.
    pub done: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why a job failed.
#[derive(Serialize, JsonSchema)]
pub struct JobError {
    pub code: String,
    pub kind: &'static str,
    pub category: &'static str,
    pub message: String,
    pub retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl From<JobState> for Status {
    fn from(state: JobState) -> Status {
        match state {
            JobState::Pending => Status::Pending,
            JobState::Running => Status::Running,
            JobState::InputRequired => Status::InputRequired,
            JobState::Complete => Status::Complete,
            JobState::Failed => Status::Failed,
            JobState::Cancelled => Status::Cancelled,
            JobState::Unknown => Status::Unknown,
        }
    }
}

impl From<Status> for JobState {
    fn from(status: Status) -> JobState {
        match status {
            Status::Pending => JobState::Pending,
            Status::Running => JobState::Running,
            Status::InputRequired => JobState::InputRequired,
            Status::Complete => JobState::Complete,
            Status::Failed => JobState::Failed,
            Status::Cancelled => JobState::Cancelled,
            Status::Unknown => JobState::Unknown,
        }
    }
}

impl From<&Job> for JobInfo {
    fn from(job: &Job) -> JobInfo {
        let progress = job.progress.clone();
        JobInfo {
            job_id: job.id,
            status: job.state.into(),
            source: job.tool.clone(),
            timing: job.timing.as_str(),
            progress: progress.map(|p| ProgressInfo { done: p.done, total: p.total, message: p.message }),
            created_at: job.created,
            started_at: job.started,
            completed_at: job.finished,
            expires_at: job.expires,
            attempt: job.attempt,
            cancel_requested: job.cancel_requested,
            result: None,
            error: None,
        }
    }
}

/// The result or error of a finished job.
fn result_and_error(stored: Option<&Payload>) -> Result<(Option<AnyJson>, Option<JobError>), Error> {
    let Some(stored) = stored else { return Ok((None, None)) };
    let ended = outcome::read(stored.bytes())?;
    let error = ended.error().map(|error| {
        let row = error.kind.row();
        JobError {
            code: error.code().to_owned(),
            kind: row.name,
            category: row.category,
            message: error.message.clone(),
            retryable: row.retryable,
            hint: error.hint.clone(),
        }
    });
    let data = ended.data().or(ended.content()).cloned();
    Ok((data.map(AnyJson::of).transpose()?, error))
}
