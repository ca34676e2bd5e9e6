//! `annotation.list`: lists the annotations of one artifact, oldest first.

use super::Annotations as AnnotationPage;
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use toolyard_protocol::{Annotations, Context, Error, Id, Request, Tool, Violation};

pub struct List(pub Arc<Services>);

const DEFAULT_LIMIT: u64 = 100;

#[derive(Deserialize, JsonSchema)]
pub struct ListRequest {
    pub artifact_id: Id,
    /// Maximum number of results; default 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

impl Request for ListRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::limit(violations, self.limit);
    }
}

impl Tool for List {
    type Request = ListRequest;
    type Response = AnnotationPage;

    const NAME: &'static str = "annotation.list";
    const TITLE: &'static str = "List annotations";
    const DESCRIPTION: &'static str = "Lists the annotations of one artifact, oldest first.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const OUTPUT: usize = 16 << 20;

    async fn run(&self, request: ListRequest, _: Context<'_>) -> Result<AnnotationPage, Error> {
        let limit = request.limit.unwrap_or(DEFAULT_LIMIT) as usize;
        Ok(self.0.stores()?.annotations.for_artifact(request.artifact_id, limit).await?.into())
    }
}
