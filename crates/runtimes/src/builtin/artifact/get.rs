//! `artifact.get`: returns one artifact.

use super::ArtifactInfo;
use crate::builtin::Services;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use toolyard_protocol::{Annotations, Context, Error, Guarded, Id, Request, Tool};

pub struct Get(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct GetRequest {
    pub id: Id,
}

impl Request for GetRequest {}

impl Tool for Get {
    type Request = GetRequest;
    type Response = ArtifactInfo;

    const NAME: &'static str = "artifact.get";
    const TITLE: &'static str = "Get an artifact";
    const DESCRIPTION: &'static str = "Returns one artifact: content hash, type, tags, origin and metadata.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const GUARDED: Option<Guarded> = Some(Guarded::Artifacts);

    async fn run(&self, request: GetRequest, _: Context<'_>) -> Result<ArtifactInfo, Error> {
        let found = self.0.stores()?.artifacts.get(request.id).await?;
        found.map(ArtifactInfo::from).ok_or_else(|| super::unknown(request.id))
    }
}
