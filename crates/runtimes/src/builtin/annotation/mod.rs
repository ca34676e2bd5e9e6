//! `annotation.*`: annotations of artifacts.

pub mod add;
pub mod list;
pub mod search;

use schemars::JsonSchema;
use serde::Serialize;
use toolyard_engine::stores::Annotation;
use toolyard_protocol::{Id, Timestamp};

#[derive(Serialize, JsonSchema)]
pub struct AnnotationInfo {
    pub id: Id,
    pub artifact_id: Id,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vibe: Option<String>,
    pub created_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
pub struct Annotations {
    pub annotations: Vec<AnnotationInfo>,
    pub count: usize,
}

impl From<Vec<Annotation>> for Annotations {
    fn from(found: Vec<Annotation>) -> Annotations {
        let annotations: Vec<_> = found.into_iter().map(AnnotationInfo::from).collect();
        Annotations { count: annotations.len(), annotations }
    }
}

impl From<Annotation> for AnnotationInfo {
    fn from(annotation: Annotation) -> AnnotationInfo {
        let Annotation { id, artifact, message, source, vibe, created } = annotation;
        AnnotationInfo { id, artifact_id: artifact, message, source, vibe, created_at: created }
    }
}
