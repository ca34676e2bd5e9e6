//! `artifact.list`: lists artifacts, newest first.

use super::ArtifactInfo;
use crate::builtin::Services;
use crate::builtin::validate::Limit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolyard_engine::stores::ArtifactFilter;
use toolyard_protocol::{Annotations, Context, Error, Guarded, Id, Request, Tool, Violation};

pub struct List(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct ListRequest {
    /// Only artifacts with this tag.
    #[serde(default)]
    pub tag: Option<String>,
    #[serde(default)]
    pub creator: Option<String>,
    #[serde(default)]
    pub limit: Limit,
    /// Only artifacts older than this one; for paging.
    #[serde(default)]
    pub before: Option<Id>,
}

#[derive(Serialize, JsonSchema)]
pub struct ListResponse {
    pub artifacts: Vec<ArtifactInfo>,
    pub count: usize,
}

impl Request for ListRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        self.limit.check(violations);
    }
}

impl Tool for List {
    type Request = ListRequest;
    type Response = ListResponse;

    const NAME: &'static str = "artifact.list";
    const TITLE: &'static str = "List artifacts";
    const DESCRIPTION: &'static str = "Lists artifacts, newest first, optionally by tag or creator.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const GUARDED: Option<Guarded> = Some(Guarded::Artifacts);
    const OUTPUT: usize = 16 << 20;

    async fn run(&self, request: ListRequest, _: Context<'_>) -> Result<ListResponse, Error> {
        let ListRequest { tag, creator, limit, before } = request;
        let limit = limit.get();
        let filter = ArtifactFilter { tag, creator, since: None, before, limit };
        let found = self.0.stores()?.artifacts.list(filter).await?;
        let artifacts: Vec<_> = found.into_iter().map(ArtifactInfo::from).collect();
        Ok(ListResponse { count: artifacts.len(), artifacts })
    }
}
