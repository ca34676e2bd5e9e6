//! `job.list`: lists the caller's jobs, newest first, with the number in each state.

use super::{JobInfo, Status};
use crate::builtin::Services;
use crate::builtin::validate::Limit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use toolyard_engine::stores::JobFilter;
use toolyard_protocol::{Annotations, Context, Error, Id, JobState, Request, Tool, Violation};

pub struct List(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct ListRequest {
    /// Only jobs in this state.
    #[serde(default)]
    pub status: Option<Status>,
    #[serde(default)]
    pub limit: Limit,
    /// Only jobs older than this one; for paging.
    #[serde(default)]
    pub before: Option<Id>,
}

#[derive(Serialize, JsonSchema)]
pub struct ListResponse {
    pub jobs: Vec<JobInfo>,
    /// Number of all the caller's jobs, not only of this page.
    pub total: u64,
    pub by_status: BTreeMap<&'static str, u64>,
}

impl Request for ListRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        self.limit.check(violations);
    }
}

impl Tool for List {
    type Request = ListRequest;
    type Response = ListResponse;

    const NAME: &'static str = "job.list";
    const TITLE: &'static str = "List jobs";
    const DESCRIPTION: &'static str =
        "Lists the jobs that the caller may see, newest first, with totals by state.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const OUTPUT: usize = 4 << 20;

    async fn run(&self, request: ListRequest, context: Context<'_>) -> Result<ListResponse, Error> {
        let jobs = self.0.jobs()?;
        let identity = context.call.identity.visible();
        let mut by_status: BTreeMap<&'static str, u64> =
            JobState::ALL.into_iter().map(|state| (state.as_str(), 0)).collect();
        for (state, count) in jobs.store().count(identity.clone()).await? {
            by_status.insert(state.as_str(), count);
        }
        let states = request.status.map(JobState::from).into_iter().collect();
        let limit = request.limit.get();
        let filter =
            JobFilter { identity, states, tool: None, before: request.before, limit, is_summary: true };
        let found = jobs.list(filter).await?;
        let total = by_status.values().sum();
        Ok(ListResponse { jobs: found.iter().map(JobInfo::from).collect(), total, by_status })
    }
}
