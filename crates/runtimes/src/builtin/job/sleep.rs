//! `job.sleep`: a job that only waits.

use super::MAX_WAIT_MS;
use crate::builtin::validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use toolyard_protocol::{Annotations, Context, Error, Request, Timing, Tool, Violation};

pub struct Sleep;

#[derive(Deserialize, JsonSchema)]
pub struct SleepRequest {
    #[schemars(range(max = 30000))]
    pub milliseconds: u64,
}

#[derive(Serialize, JsonSchema)]
pub struct SleepResponse {
    pub slept_ms: u64,
}

impl Request for SleepRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::number(violations, "/milliseconds", Some(self.milliseconds), 0..=MAX_WAIT_MS);
    }
}

impl Tool for Sleep {
    type Request = SleepRequest;
    type Response = SleepResponse;

    const NAME: &'static str = "job.sleep";
    const TITLE: &'static str = "Sleep";
    const DESCRIPTION: &'static str = "Waits for the given number of milliseconds, at most 30000.";
    const TIMING: Timing = Timing::AsyncShort;
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const TIMEOUT: Duration = Duration::from_secs(35);

    async fn run(&self, request: SleepRequest, _: Context<'_>) -> Result<SleepResponse, Error> {
        tokio::time::sleep(Duration::from_millis(request.milliseconds)).await;
        Ok(SleepResponse { slept_ms: request.milliseconds })
    }
}
