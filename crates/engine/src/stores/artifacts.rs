//! Named results and what people say about them.

use super::StoreFuture;
use toolyard_protocol::{Id, Payload, Timestamp};

pub trait ArtifactStore: Send + Sync {
    /// The id is the caller's, fresh for each artifact: equal content makes two artifacts, not one. The very same
    /// artifact again is given back; another one under an id that is taken is `Invalid`.
    fn create(&self, new: NewArtifact) -> StoreFuture<'_, Artifact>;

    fn get(&self, id: Id) -> StoreFuture<'_, Option<Artifact>>;

    /// Newest first, which is by id.
    fn list(&self, filter: ArtifactFilter) -> StoreFuture<'_, Vec<Artifact>>;

    /// Content hashes that some artifact names, sorted, each once, those after `after`: for the blob store's garbage
    /// collection.
    fn hashes(&self, after: Option<String>, limit: usize) -> StoreFuture<'_, Vec<String>>;

    /// With its annotations; `false` when there was none. Those that name it as parent keep doing so.
    fn remove(&self, id: Id) -> StoreFuture<'_, bool>;
}

pub trait AnnotationStore: Send + Sync {
    /// `NotFound` when the artifact does not exist. The very same annotation again is given back.
    fn add(&self, new: NewAnnotation) -> StoreFuture<'_, Annotation>;

    /// Oldest first, which is by id.
    fn for_artifact(&self, artifact: Id, limit: usize) -> StoreFuture<'_, Vec<Annotation>>;

    /// Every word of the query occurs in message, source or vibe; words are runs of letters and digits, compared
    /// without case; a trailing `*` matches a beginning. Newest first. The store's `full_text.rs` has the rule in full; a
    /// query without a word is `Invalid`.
    fn search(&self, words: &str, limit: usize) -> StoreFuture<'_, Vec<Annotation>>;
}

/// Where something comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// Sorted, without doubles; the store sees to it.
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
    /// Made then or later.
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
    /// What can be searched.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        [Some(&self.message), self.source.as_ref(), self.vibe.as_ref()]
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}
