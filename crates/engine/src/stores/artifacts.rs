//! Stored results (artifacts) and their annotations.

use super::StoreFuture;
use toolyard_protocol::{Id, Payload, Timestamp};

pub trait ArtifactStore: Send + Sync {
    /// The caller chooses a new id for each artifact: equal content makes two artifacts, not one. Creating
    /// the same artifact again returns it; a different one with an existing id is `Invalid`.
    fn create(&self, new: NewArtifact) -> StoreFuture<'_, Artifact>;

    fn get(&self, id: Id) -> StoreFuture<'_, Option<Artifact>>;

    /// Newest first, which is by id.
    fn list(&self, filter: ArtifactFilter) -> StoreFuture<'_, Vec<Artifact>>;

    /// Content hashes that artifacts refer to, sorted and distinct, after `after`: for the blob store's
    /// garbage collection.
    fn hashes(&self, after: Option<String>, limit: usize) -> StoreFuture<'_, Vec<String>>;

    /// Removes an artifact with its annotations; `false` when not found. References to it as parent remain.
    fn remove(&self, id: Id) -> StoreFuture<'_, bool>;
}

pub trait AnnotationStore: Send + Sync {
    /// `NotFound` when the artifact does not exist. Adding the same annotation again returns it.
    fn add(&self, new: NewAnnotation) -> StoreFuture<'_, Annotation>;

    /// Oldest first, which is by id.
    fn for_artifact(&self, artifact: Id, limit: usize) -> StoreFuture<'_, Vec<Annotation>>;

    /// Every word of the query occurs in message, source or vibe; words are runs of letters and digits,
    /// compared without case; a trailing `*` matches a prefix. Newest first. The full rule is in the store's
    /// `full_text.rs`; a query without a word is `Invalid`.
    fn search(&self, words: &str, limit: usize) -> StoreFuture<'_, Vec<Annotation>>;
}

/// The origin of an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// Sorted and deduplicated by the store.
    pub tags: Vec<String>,
    pub creator: Option<String>,
    pub parent: Option<Id>,
    pub variation_set: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewArtifact {
    pub id: Id,
    pub hash: String,
    pub size: u64,
    pub mime: String,
    pub lineage: Lineage,
    /// A JSON object.
    pub metadata: Option<Payload>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    pub id: Id,
    pub hash: String,
    pub size: u64,
    pub mime: String,
    pub lineage: Lineage,
    pub metadata: Option<Payload>,
    pub created: Timestamp,
}

#[derive(Clone, Debug, Default)]
pub struct ArtifactFilter {
    pub tag: Option<String>,
    pub creator: Option<String>,
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// Only artifacts older than this one.
    pub before: Option<Id>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAnnotation {
    pub id: Id,
    pub artifact: Id,
    pub message: String,
    pub source: Option<String>,
    pub vibe: Option<String>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    pub id: Id,
    pub artifact: Id,
    pub message: String,
    pub source: Option<String>,
    pub vibe: Option<String>,
    pub created: Timestamp,
}

impl From<NewArtifact> for Artifact {
    fn from(new: NewArtifact) -> Artifact {
        let NewArtifact { id, hash, size, mime, mut lineage, metadata, now } = new;
        lineage.tags.sort();
        lineage.tags.dedup();
        Artifact { id, hash, size, mime, lineage, metadata, created: now }
    }
}

impl From<NewAnnotation> for Annotation {
    fn from(new: NewAnnotation) -> Annotation {
        let NewAnnotation { id, artifact, message, source, vibe, now } = new;
        Annotation { id, artifact, message, source, vibe, created: now }
    }
}

impl Annotation {
    /// The searchable texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        [Some(&self.message), self.source.as_ref(), self.vibe.as_ref()]
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}
