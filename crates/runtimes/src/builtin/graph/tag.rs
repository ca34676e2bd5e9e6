//! `graph.tag`: adds a tag (namespace and value) to an identity.

use super::TagInfo;
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolyard_engine::stores::Tag;
use toolyard_protocol::{Annotations, Context, Error, Request, Timing, Tool, Violation};

pub struct AddTag(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct TagRequest {
    pub identity_id: String,
    pub namespace: String,
    pub value: String,
}

#[derive(Serialize, JsonSchema)]
pub struct TagResponse {
    pub identity_id: String,
    /// All tags of the identity.
    pub tags: Vec<TagInfo>,
}

impl Request for TagRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::label(violations, "/identity_id", &self.identity_id);
        validate::label(violations, "/namespace", &self.namespace);
        validate::label(violations, "/value", &self.value);
    }
}

impl Tool for AddTag {
    type Request = TagRequest;
    type Response = TagResponse;

    const NAME: &'static str = "graph.tag";
    const TITLE: &'static str = "Tag an identity";
    const DESCRIPTION: &'static str = "Adds a tag to an identity; adding it again changes nothing.";
    const TIMING: Timing = Timing::AsyncShort;
    const ANNOTATIONS: Annotations = Annotations::IDEMPOTENT;

    async fn run(&self, request: TagRequest, _: Context<'_>) -> Result<TagResponse, Error> {
        let TagRequest { identity_id, namespace, value } = request;
        let tagged = self.0.stores()?.graph.tag(identity_id, Tag { namespace, value }).await?;
        let tags = tagged.tags.into_iter().map(|Tag { namespace, value }| TagInfo { namespace, value });
        Ok(TagResponse { identity_id: tagged.id, tags: tags.collect() })
    }
}
