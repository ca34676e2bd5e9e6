//! `job.cancel`: cancels a job and kills its processes.

use super::Status;
use crate::builtin::Services;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::{Annotations, Context, Error, Id, Request, Tool};

pub struct Cancel(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct CancelRequest {
    pub job_id: Id,
}

#[derive(Serialize, JsonSchema)]
pub struct CancelResponse {
    pub job_id: Id,
    /// The state after the call. A finished job is not changed; a job of another process stops shortly after.
    pub status: Status,
    pub cancelled: bool,
}

impl Request for CancelRequest {}

impl Tool for Cancel {
    type Request = CancelRequest;
    type Response = CancelResponse;

    const NAME: &'static str = "job.cancel";
    const TITLE: &'static str = "Cancel a job";
    const DESCRIPTION: &'static str = "Cancels one of the caller's jobs and kills its processes.";
    const ANNOTATIONS: Annotations = Annotations { destructive: Some(true), ..Annotations::IDEMPOTENT };
    const TIMEOUT: Duration = Duration::from_secs(30);

    async fn run(&self, request: CancelRequest, context: Context<'_>) -> Result<CancelResponse, Error> {
        let job_id = request.job_id;
        let status: Status = self.0.jobs()?.cancel(job_id, &context.call.identity).await?.into();
        Ok(CancelResponse { job_id, status, cancelled: status == Status::Cancelled })
    }
}
