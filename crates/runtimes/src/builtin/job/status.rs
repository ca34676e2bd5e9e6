//! `job.status`: returns one job, with its result once it is finished.

use super::JobInfo;
use crate::builtin::Services;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use toolyard_protocol::{Annotations, Context, Error, Id, Request, Tool};

pub struct GetStatus(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct StatusRequest {
    pub job_id: Id,
}

impl Request for StatusRequest {}

impl Tool for GetStatus {
    type Request = StatusRequest;
    type Response = JobInfo;

    const NAME: &'static str = "job.status";
    const TITLE: &'static str = "Get a job";
    const DESCRIPTION: &'static str = "Returns the state of a job and, when finished, its result or error.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    // The response includes the result of any tool.
    const OUTPUT: usize = 44 << 20;

    async fn run(&self, request: StatusRequest, context: Context<'_>) -> Result<JobInfo, Error> {
        let job = self.0.jobs()?.get(request.job_id, &context.call.identity).await?;
        let (result, error) = super::result_and_error(job.outcome.as_ref())?;
        Ok(JobInfo { result, error, ..JobInfo::from(&job) })
    }
}
