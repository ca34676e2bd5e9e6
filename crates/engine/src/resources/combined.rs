//! Several sources of resources as one: lists concatenate them, a URI goes to the source that claims it.

use super::{ResourceChange, Resources, WatchGuard, not_found, unknown_cursor};
use crate::request_context::{RequestContext, RequestFuture};
use arc_swap::ArcSwap;
use std::sync::Arc;
use tokio::sync::broadcast;
use toolyard_protocol::{
    CachePolicy, Completion, CompletionRequest, Error, Page, ReadResult, Resource, ResourceContents,
    ResourceTemplate,
};

pub struct CombinedResources {
    sources: ArcSwap<Vec<Arc<dyn Resources>>>,
    /// Every source sends its changes here.
    changes: broadcast::Sender<ResourceChange>,
}

/// Lists one page of a source.
type ListFn<T> =
    for<'a> fn(&'a dyn Resources, Option<&'a str>, RequestContext<'a>) -> RequestFuture<'a, Page<T>>;

/// A page ends once it has this many items; the last source may add a whole page of its own.
const PAGE_SIZE: usize = 100;

impl CombinedResources {
    pub fn new(
        sources: Vec<Arc<dyn Resources>>,
        changes: broadcast::Sender<ResourceChange>,
    ) -> CombinedResources {
        CombinedResources { sources: ArcSwap::from_pointee(sources), changes }
    }

    /// Watches of a source that is gone end with their guards.
    pub fn replace_sources(&self, sources: Vec<Arc<dyn Resources>>) {
        self.sources.store(Arc::new(sources));
        let _ = self.changes.send(ResourceChange::List);
    }

    fn source_for(&self, uri: &str) -> Result<Arc<dyn Resources>, Error> {
        let sources = self.sources.load();
        sources.iter().find(|source| source.claims(uri)).cloned().ok_or_else(|| not_found(uri))
    }

    /// `cursor` is `SOURCE.CURSOR`; the second part is empty at the start of a source.
    async fn page<T>(
        &self,
        cursor: Option<&str>,
        context: RequestContext<'_>,
        list: ListFn<T>,
    ) -> Result<Page<T>, Error> {
        let sources = self.sources.load_full();
        let (mut at, mut inner) = parse(cursor)?;
        if cursor.is_some() && at >= sources.len() {
            return Err(unknown_cursor());
        }
        let mut page: Option<Page<T>> = None;
        while let Some(source) = sources.get(at) {
            let mut found = list(source.as_ref(), inner.as_deref(), context).await?;
            (at, inner) = match found.next.take() {
                Some(next) => (at, Some(next)),
                None => (at + 1, None),
            };
            page = Some(match page {
                None => found,
                Some(page) => join(page, found),
            });
            if inner.is_some() || page.as_ref().is_some_and(|page| page.items.len() >= PAGE_SIZE) {
                break;
            }
        }
        let mut page = page.unwrap_or_else(|| Page::whole(Vec::new()));
        page.next = (at < sources.len()).then(|| format!("{at}.{}", inner.unwrap_or_default()));
        Ok(page)
    }
}

fn parse(cursor: Option<&str>) -> Result<(usize, Option<String>), Error> {
    let Some(cursor) = cursor else { return Ok((0, None)) };
    let (at, inner) = cursor.split_once('.').ok_or_else(unknown_cursor)?;
    let at = at.parse().map_err(|_| unknown_cursor())?;
    Ok((at, Some(inner.to_owned()).filter(|inner| !inner.is_empty())))
}

fn join<T>(mut first: Page<T>, second: Page<T>) -> Page<T> {
    first.items.extend(second.items);
    let (a, b) = (first.cache_policy, second.cache_policy);
    first.cache_policy = CachePolicy { ttl: a.ttl.min(b.ttl), shared: a.shared && b.shared };
    first
}

impl Resources for CombinedResources {
    fn is_available(&self) -> bool {
        self.sources.load().iter().any(|source| source.is_available())
    }

    fn claims(&self, uri: &str) -> bool {
        self.sources.load().iter().any(|source| source.claims(uri))
    }

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Resource>> {
        Box::pin(self.page(cursor, context, |source, cursor, context| source.list(cursor, context)))
    }

    fn templates<'a>(
        &'a self,
        cursor: Option<&'a str>,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<ResourceTemplate>> {
        Box::pin(self.page(cursor, context, |source, cursor, context| source.templates(cursor, context)))
    }

    fn read<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, ReadResult> {
        Box::pin(async move { self.source_for(uri)?.read(uri, context).await })
    }

    fn write<'a>(&'a self, part: ResourceContents, context: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(async move { self.source_for(&part.uri)?.write(part, context).await })
    }

    fn delete<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(async move { self.source_for(uri)?.delete(uri, context).await })
    }

    fn complete<'a>(
        &'a self,
        uri_template: &'a str,
        completing: CompletionRequest,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        Box::pin(
            async move { self.source_for(uri_template)?.complete(uri_template, completing, context).await },
        )
    }

    fn watch<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, WatchGuard> {
        Box::pin(async move { self.source_for(uri)?.watch(uri, context).await })
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.changes.subscribe()
    }
}
