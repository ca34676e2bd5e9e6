//! `artifact.*`: stored content with metadata and lineage.

pub mod create;
pub mod get;
pub mod list;
pub mod upload;

use super::{Services, validate};
use schemars::JsonSchema;
use serde::Serialize;
use toolyard_engine::stores::{Artifact, Lineage, NewArtifact};
use toolyard_protocol::{Error, ErrorKind, Hash, Id, Payload, Timestamp, Violation};
use toolyard_store::blobs::StoredBlob;
use toolyard_wire::typed::AnyJson;

/// An artifact with its metadata.
#[derive(Serialize, JsonSchema)]
pub struct ArtifactInfo {
    pub id: Id,
    pub content_hash: String,
    pub size: u64,
    pub mime_type: String,
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creator: Option<String>,
    pub created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variation_set_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<AnyJson>,
}

impl From<Artifact> for ArtifactInfo {
    fn from(artifact: Artifact) -> ArtifactInfo {
        let Lineage { tags, creator, parent, variation_set } = artifact.lineage;
        ArtifactInfo {
            id: artifact.id,
            content_hash: artifact.hash,
            size: artifact.size,
            mime_type: artifact.mime,
            tags,
            creator,
            created_at: artifact.created,
            parent_id: parent,
            variation_set_id: variation_set,
            metadata: artifact.metadata.and_then(AnyJson::new),
        }
    }
}

/// A new artifact; also the data of the `artifact_created` event.
#[derive(Serialize, JsonSchema)]
pub struct ArtifactCreated {
    pub artifact_id: Id,
    pub content_hash: String,
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creator: Option<String>,
}

const MAX_TAGS: usize = 64;

fn check_lineage(
    violations: &mut Vec<Violation>,
    tags: &[String],
    creator: &Option<String>,
    variation_set: &Option<String>,
) {
    if tags.len() > MAX_TAGS {
        validate::add(violations, "/tags", format!("has {} tags; the maximum is {MAX_TAGS}", tags.len()));
    }
    for (i, tag) in tags.iter().enumerate().take(MAX_TAGS) {
        validate::label(violations, &format!("/tags/{i}"), tag);
    }
    validate::labels(violations, &[("/creator", creator), ("/variation_set_id", variation_set)]);
}

/// The fields of a new artifact.
struct ArtifactFields {
    mime: String,
    lineage: Lineage,
    metadata: Option<Payload>,
}

/// Creates the artifact and emits its event. The content must be pinned until this is done.
async fn create(
    services: &Services,
    stored: StoredBlob,
    fields: ArtifactFields,
) -> Result<ArtifactCreated, Error> {
    let store = &services.stores()?.artifacts;
    if let Some(parent) = fields.lineage.parent
        && store.get(parent).await?.is_none()
    {
        return Err(unknown(parent).hint("'parent_id' must be the id of an artifact"));
    }
    let new = NewArtifact {
        id: services.new_id(),
        hash: stored.hash.hex(),
        size: stored.size,
        mime: fields.mime,
        lineage: fields.lineage,
        metadata: fields.metadata,
        now: services.now(),
    };
    let artifact = store.create(new).await?;
    let Lineage { tags, creator, .. } = artifact.lineage;
    let created = ArtifactCreated { artifact_id: artifact.id, content_hash: artifact.hash, tags, creator };
    services.emit_event("artifact_created", artifact.id, &created).await?;
    Ok(created)
}

fn unknown(id: Id) -> Error {
    Error::new(ErrorKind::ResourceNotFound, format!("artifact '{id}' not found"))
}

/// The blob for a new artifact, which must already be stored.
async fn find_blob(services: &Services, hash: Hash) -> Result<StoredBlob, Error> {
    let size = services.stores()?.blobs.size(&hash).await?;
    let size = size.ok_or_else(|| {
        Error::new(ErrorKind::ResourceNotFound, format!("no content with the hash {hash}"))
            .hint("store it first with cas.store or cas.upload_file")
    })?;
    Ok(StoredBlob { hash, size })
}
