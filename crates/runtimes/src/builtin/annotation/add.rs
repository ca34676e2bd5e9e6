//! `annotation.add`: adds an annotation to an artifact.

use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolyard_engine::stores::NewAnnotation;
use toolyard_protocol::{Annotations, Context, Error, Guarded, Id, Request, Timing, Tool, Violation};

pub struct Add(pub Arc<Services>);

const MAX_MESSAGE: usize = 32 << 10;

#[derive(Deserialize, JsonSchema)]
pub struct AddRequest {
    pub artifact_id: Id,
    pub message: String,
    /// Who made the annotation.
    #[serde(default)]
    pub source: Option<String>,
    /// The mood, in a word or two.
    #[serde(default)]
    pub vibe: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct AddResponse {
    pub artifact_id: Id,
    pub annotation_id: Id,
}

impl Request for AddRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::text(violations, "/message", &self.message, 1..=MAX_MESSAGE);
        validate::labels(violations, &[("/source", &self.source), ("/vibe", &self.vibe)]);
    }
}

impl Tool for Add {
    type Request = AddRequest;
    type Response = AddResponse;

    const NAME: &'static str = "annotation.add";
    const TITLE: &'static str = "Annotate an artifact";
    const DESCRIPTION: &'static str = "Adds a message to an artifact, with its source and vibe.";
    const TIMING: Timing = Timing::AsyncShort;
    const ANNOTATIONS: Annotations = Annotations::ADDITIVE;
    const GUARDED: Option<Guarded> = Some(Guarded::Artifacts);

    async fn run(&self, request: AddRequest, _: Context<'_>) -> Result<AddResponse, Error> {
        let AddRequest { artifact_id, message, source, vibe } = request;
        let (id, now) = (self.0.new_id(), self.0.now());
        let new = NewAnnotation { id, artifact: artifact_id, message, source, vibe, now };
        let added = self.0.stores()?.annotations.add(new).await?;
        Ok(AddResponse { artifact_id: added.artifact, annotation_id: added.id })
    }
}
