//! `artifact.upload`: stores a file of the yard and creates an artifact for it.

use super::{ArtifactCreated, ArtifactFields};
use crate::builtin::cas::upload_file::MAX_PATH;
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::stores::Lineage;
use toolyard_protocol::{Annotations, Context, Error, Guarded, Id, Request, Timing, Tool, Violation};

pub struct Upload(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct UploadRequest {
    /// Path relative to the yard's root; must not lead outside.
    pub file_path: String,
    pub mime_type: String,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub creator: Option<String>,
    /// The artifact this one was derived from.
    #[serde(default)]
    pub parent_id: Option<Id>,
    /// An id shared by variations of the same idea.
    #[serde(default)]
    pub variation_set_id: Option<String>,
}

impl Request for UploadRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::text(violations, "/file_path", &self.file_path, 1..=MAX_PATH);
        validate::mime(violations, "/mime_type", &self.mime_type);
        super::check_lineage(violations, &self.tags, &self.creator, &self.variation_set_id);
    }
}

impl Tool for Upload {
    type Request = UploadRequest;
    type Response = ArtifactCreated;

    const NAME: &'static str = "artifact.upload";
    const TITLE: &'static str = "Upload an artifact";
    const DESCRIPTION: &'static str = "Stores a file of the yard and creates an artifact for it.";
    const TIMING: Timing = Timing::AsyncShort;
    const ANNOTATIONS: Annotations = Annotations::ADDITIVE;
    const TIMEOUT: Duration = Duration::from_secs(600);
    const GUARDED: Option<Guarded> = Some(Guarded::ReadsFiles);

    async fn run(&self, request: UploadRequest, _: Context<'_>) -> Result<ArtifactCreated, Error> {
        let UploadRequest { file_path, mime_type, tags, creator, parent_id, variation_set_id } = request;
        let file = self.0.files.open(&file_path)?;
        let blobs = &self.0.stores()?.blobs;
        let stored = blobs.put_file(file).await?;
        let _pin = blobs.pin(&stored.hash);
        let fields = ArtifactFields {
            mime: mime_type,
            lineage: Lineage { tags, creator, parent: parent_id, variation_set: variation_set_id },
            metadata: None,
        };
        super::create(&self.0, stored, fields).await
    }
}
