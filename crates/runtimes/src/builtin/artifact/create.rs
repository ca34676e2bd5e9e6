//! `artifact.create`: creates an artifact for stored content.

use super::{ArtifactCreated, ArtifactFields};
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use toolyard_engine::stores::Lineage;
use toolyard_protocol::{Annotations, Context, Error, Guarded, Hash, Id, Request, Timing, Tool, Violation};
use toolyard_wire::typed::AnyJson;

pub struct Create(pub Arc<Services>);

const MAX_METADATA: usize = 64 << 10;

#[derive(Deserialize, JsonSchema)]
pub struct CreateRequest {
    /// Hash of content that is already stored.
    pub cas_hash: Hash,
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
    /// Any JSON object.
    #[serde(default)]
    pub metadata: Option<AnyJson>,
}

impl Request for CreateRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::mime(violations, "/mime_type", &self.mime_type);
        super::check_lineage(violations, &self.tags, &self.creator, &self.variation_set_id);
        if let Some(metadata) = &self.metadata {
            if !metadata.is_object() {
                validate::add(violations, "/metadata", "must be an object");
            }
            let size = metadata.payload().len();
            if size > MAX_METADATA {
                validate::add(
                    violations,
                    "/metadata",
                    format!("has {size} bytes; the maximum is {MAX_METADATA}"),
                );
            }
        }
    }
}

impl Tool for Create {
    type Request = CreateRequest;
    type Response = ArtifactCreated;

    const NAME: &'static str = "artifact.create";
    const TITLE: &'static str = "Create an artifact";
    const DESCRIPTION: &'static str = "Creates an artifact for stored content, with tags, creator, parent and metadata. The same content may \
         have several artifacts.";
    const TIMING: Timing = Timing::AsyncShort;
    const ANNOTATIONS: Annotations = Annotations::ADDITIVE;
    const GUARDED: Option<Guarded> = Some(Guarded::Artifacts);
    const INPUT: usize = 256 << 10;

    async fn run(&self, request: CreateRequest, _: Context<'_>) -> Result<ArtifactCreated, Error> {
        let CreateRequest { cas_hash, mime_type, tags, creator, parent_id, variation_set_id, metadata } =
            request;
        let _pin = self.0.stores()?.blobs.pin(&cas_hash);
        let stored = super::find_blob(&self.0, cas_hash).await?;
        let fields = ArtifactFields {
            mime: mime_type,
            lineage: Lineage { tags, creator, parent: parent_id, variation_set: variation_set_id },
            metadata: metadata.map(AnyJson::into_payload),
        };
        super::create(&self.0, stored, fields).await
    }
}
