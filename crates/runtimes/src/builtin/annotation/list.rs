//! `annotation.list`: lists the annotations of one artifact, oldest first.

use super::Annotations as AnnotationPage;
use crate::builtin::Services;
use crate::builtin::validate::Limit;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use toolyard_protocol::{Annotations, Context, Error, Guarded, Id, Request, Tool, Violation};

pub struct List(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct ListRequest {
    pub artifact_id: Id,
    #[serde(default)]
    pub limit: Limit,
}

impl Request for ListRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        self.limit.check(violations);
    }
}

impl Tool for List {
    type Request = ListRequest;
    type Response = AnnotationPage;

    const NAME: &'static str = "annotation.list";
    const TITLE: &'static str = "List annotations";
    const DESCRIPTION: &'static str = "Lists the annotations of one artifact, oldest first.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const GUARDED: Option<Guarded> = Some(Guarded::Artifacts);
    const OUTPUT: usize = 16 << 20;

    async fn run(&self, request: ListRequest, _: Context<'_>) -> Result<AnnotationPage, Error> {
        let limit = request.limit.get();
        Ok(self.0.stores()?.annotations.for_artifact(request.artifact_id, limit).await?.into())
    }
}
