//! `artifact://ID`: the content of an artifact, for the owner of the yard.

use super::{BuiltinScheme, OnChange, PAGE_SIZE, TypedBody, WatchFuture};
use crate::resources::mime;
use crate::resources::root::SizeLimit;
use std::sync::Arc;
use toolyard_engine::resources::unknown_cursor;
use toolyard_engine::stores::{Artifact, ArtifactFilter};
use toolyard_engine::{RequestContext, RequestFuture};
use toolyard_protocol::{Error, ErrorKind, Hash, Id, Resource};
use toolyard_runtimes::builtin::{Group, Services};

pub struct Artifacts {
    pub services: Arc<Services>,
    /// The largest content that is read.
    pub max: SizeLimit,
}

impl BuiltinScheme for Artifacts {
    const SCHEME: &'static str = "artifact";
    const GROUP: Group = Group::Artifacts;
    const DESCRIPTION: &'static str = "The content of an artifact";

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Vec<Resource>> {
        Box::pin(async move {
            if !context.identity.is_owner() {
                return Ok(Vec::new());
            }
            let before = cursor.map(|cursor| Id::parse(cursor).ok_or_else(unknown_cursor)).transpose()?;
            let filter = ArtifactFilter { before, limit: PAGE_SIZE, ..ArtifactFilter::default() };
            let found = self.services.stores()?.artifacts.list(filter).await?;
            Ok(found.into_iter().map(resource).collect())
        })
    }

    fn read<'a>(&'a self, id: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, Option<TypedBody>> {
        Box::pin(async move {
            let Some(id) = Id::parse(id).filter(|_| context.identity.is_owner()) else { return Ok(None) };
            let stores = self.services.stores()?;
            let Some(artifact) = stores.artifacts.get(id).await? else { return Ok(None) };
            let hash = Hash::parse(&artifact.hash).ok_or_else(|| {
                Error::new(ErrorKind::Internal, format!("the artifact '{id}' names no hash"))
            })?;
            let bytes = stores.blobs.get(&hash, self.max.get()).await?;
            Ok(Some(TypedBody { body: mime::body(&artifact.mime, bytes.to_vec()), mime: artifact.mime }))
        })
    }

    /// An artifact never changes.
    fn watch(&self, _: &str, _: RequestContext<'_>, _: OnChange) -> Option<WatchFuture> {
        None
    }
}

fn resource(artifact: Artifact) -> Resource {
    let tags = artifact.lineage.tags.join(", ");
    Resource {
        uri: format!("{}://{}", Artifacts::SCHEME, artifact.id),
        name: artifact.id.to_string(),
        description: Some(tags).filter(|tags| !tags.is_empty()).map(|tags| format!("tags: {tags}")),
        mime: Some(artifact.mime),
        size: Some(artifact.size),
        ..Resource::default()
    }
}
