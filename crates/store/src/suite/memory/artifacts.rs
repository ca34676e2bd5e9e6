//! Artifacts and annotations in two maps by id.

use super::{lock, reply};
use crate::bounds;
use crate::full_text::{TextQuery, tokenize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use toolyard_engine::stores::{
    Annotation, AnnotationStore, Artifact, ArtifactFilter, ArtifactStore, NewAnnotation, NewArtifact,
    StoreError, StoreFuture,
};
use toolyard_protocol::Id;

#[derive(Default)]
pub struct Artifacts(Mutex<State>);

#[derive(Default)]
struct State {
    artifacts: BTreeMap<Id, Artifact>,
    annotations: BTreeMap<Id, Annotation>,
}

impl ArtifactStore for Artifacts {
    fn create(&self, new: NewArtifact) -> StoreFuture<'_, Artifact> {
        reply(lock(&self.0).create(new.into()))
    }

    fn get(&self, id: Id) -> StoreFuture<'_, Option<Artifact>> {
        reply(Ok(lock(&self.0).artifacts.get(&id).cloned()))
    }

    fn list(&self, filter: ArtifactFilter) -> StoreFuture<'_, Vec<Artifact>> {
        reply(lock(&self.0).list(&filter))
    }

    fn hashes(&self, after: Option<String>, limit: usize) -> StoreFuture<'_, Vec<String>> {
        let state = lock(&self.0);
        let distinct: BTreeSet<&String> = state.artifacts.values().map(|artifact| &artifact.hash).collect();
        let wanted = distinct.into_iter().filter(|hash| after.as_ref().is_none_or(|after| *hash > after));
        reply(bounds::limit(limit).map(|limit| wanted.take(limit).cloned().collect()))
    }

    fn remove(&self, id: Id) -> StoreFuture<'_, bool> {
        let mut state = lock(&self.0);
        state.annotations.retain(|_, annotation| annotation.artifact != id);
        reply(Ok(state.artifacts.remove(&id).is_some()))
    }
}

impl AnnotationStore for Artifacts {
    fn add(&self, new: NewAnnotation) -> StoreFuture<'_, Annotation> {
        reply(lock(&self.0).annotate(new))
    }

    fn for_artifact(&self, artifact: Id, limit: usize) -> StoreFuture<'_, Vec<Annotation>> {
        let state = lock(&self.0);
        let wanted = state.annotations.values().filter(|annotation| annotation.artifact == artifact);
        reply(bounds::limit(limit).map(|limit| wanted.take(limit).cloned().collect()))
    }

    fn search(&self, query: &str, limit: usize) -> StoreFuture<'_, Vec<Annotation>> {
        reply(lock(&self.0).search(query, limit))
    }
}

impl State {
    fn create(&mut self, new: Artifact) -> Result<Artifact, StoreError> {
        bounds::artifact(&new)?;
        if let Some(old) = self.artifacts.get(&new.id) {
            return if *old == new { Ok(new) } else { Err(StoreError::id_taken("artifact", new.id)) };
        }
        self.artifacts.insert(new.id, new.clone());
        Ok(new)
    }

    fn list(&self, filter: &ArtifactFilter) -> Result<Vec<Artifact>, StoreError> {
        bounds::artifact_filter(filter)?;
        let wanted = |artifact: &&Artifact| {
            let lineage = &artifact.lineage;
            filter.tag.as_ref().is_none_or(|tag| lineage.tags.contains(tag))
                && filter.creator.as_ref().is_none_or(|creator| lineage.creator.as_ref() == Some(creator))
                && filter.since.is_none_or(|since| artifact.created >= since)
                && filter.before.is_none_or(|before| artifact.id < before)
        };
        Ok(self.artifacts.values().rev().filter(wanted).take(filter.limit).cloned().collect())
    }

    fn annotate(&mut self, new: NewAnnotation) -> Result<Annotation, StoreError> {
        bounds::annotation(&new)?;
        if !self.artifacts.contains_key(&new.artifact) {
            return Err(StoreError::NotFound { what: "artifact", id: new.artifact.to_string() });
        }
        let new = Annotation::from(new);
        if let Some(old) = self.annotations.get(&new.id) {
            return if *old == new { Ok(new) } else { Err(StoreError::id_taken("annotation", new.id)) };
        }
        self.annotations.insert(new.id, new.clone());
        Ok(new)
    }

    fn search(&self, query: &str, limit: usize) -> Result<Vec<Annotation>, StoreError> {
        let limit = bounds::limit(limit)?;
        let query = TextQuery::parse(query)?;
        let wanted = |annotation: &&Annotation| query.matches(&tokenize(annotation.texts()));
        Ok(self.annotations.values().rev().filter(wanted).take(limit).cloned().collect())
    }
}
