//! Named results and what people say about them.

use super::Reply;
use toolyard_protocol::{Id, Payload, Timestamp};

pub trait ArtifactStore: Send + Sync {
    /// The id is the caller's, fresh for each artifact: equal content makes two artifacts, not one.
    fn create(&self, new: NewArtifact) -> Reply<'_, Artifact>;

    fn get(&self, id: Id) -> Reply<'_, Option<Artifact>>;

    /// Newest first.
    fn list(&self, filter: ArtifactFilter) -> Reply<'_, Vec<Artifact>>;

    /// Content hashes that some artifact names, for the blob store's garbage collection.
    fn hashes(&self, after: Option<String>, limit: usize) -> Reply<'_, Vec<String>>;

    fn remove(&self, id: Id) -> Reply<'_, bool>;
}

pub trait AnnotationStore: Send + Sync {
    /// `NotFound` when the artifact does not exist.
    fn add(&self, new: NewAnnotation) -> Reply<'_, Annotation>;

    /// Oldest first.
    fn of(&self, artifact: Id, limit: usize) -> Reply<'_, Vec<Annotation>>;

    /// Every word of the query occurs in message, source or vibe; words are runs of letters and digits, compared
    /// without case; a trailing `*` matches a beginning. Newest first.
    fn search(&self, words: &str, limit: usize) -> Reply<'_, Vec<Annotation>>;
}

/// Where something comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// Sorted, without doubles.
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
