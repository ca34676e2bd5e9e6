//! `job.status`: one job, with its result once it has one.

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
    const DESCRIPTION: &'static str = "Tells where a job stands; when it is over, its result or its error.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    // The result of any tool.
    const OUTPUT: usize = 44 << 20;

    async fn run(&self, request: StatusRequest, context: Context<'_>) -> Result<JobInfo, Error> {
        let job = self.0.jobs()?.get(request.job_id, &context.call.identity).await?;
        let (result, error) = super::result_and_error(job.outcome.as_ref())?;
        Ok(JobInfo { result, error, ..JobInfo::from(&job) })
    }
}
