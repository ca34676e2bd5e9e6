//! Toolyard's own data as read-only resources: artifacts, job results, tool specifications. Each scheme is
//! available when `[builtin]` enables its tools, and shows a caller what those tools would.

mod artifacts;
mod jobs;
mod tools;

pub use artifacts::Artifacts;
pub use jobs::JobResults;
pub use tools::ToolSpecs;

use super::read_only;
use super::shared_watches::SharedWatches;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinHandle;
use toolyard_engine::resources::{not_found, unknown_cursor};
use toolyard_engine::{RequestContext, RequestFuture, ResourceChange, Resources, WatchGuard};
use toolyard_protocol::{
    CachePolicy, Completion, CompletionRequest, Error, ErrorKind, Extra, Page, ReadResult, Resource,
    ResourceContents, ResourceTemplate,
};
use toolyard_runtimes::builtin::Group;

/// A built-in URI scheme: `SCHEME://ID`.
pub trait BuiltinScheme: Send + Sync + 'static {
    const SCHEME: &'static str;
    const GROUP: Group;
    const DESCRIPTION: &'static str;

    /// Newest first, or by name; `cursor` is the last id of the page before.
    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Vec<Resource>>;

    /// `None` when it does not exist for this caller.
    fn read<'a>(&'a self, id: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, Option<TypedBody>>;

    /// Calls `on_change` after each change, and ends after the last one; `None` if the content never changes.
    fn watch(&self, id: &str, context: RequestContext<'_>, on_change: OnChange) -> Option<WatchFuture>;
}

/// What a scheme gives for an id.
pub struct TypedBody {
    pub mime: String,
    pub body: toolyard_protocol::Body,
}

pub type OnChange = Box<dyn Fn() + Send + Sync>;
pub type WatchFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

pub const PAGE_SIZE: usize = 100;
/// Concurrent watches of one scheme.
const MAX_WATCHES: usize = 1000;

/// A scheme as a source of resources.
pub struct BuiltinResources<K> {
    scheme: K,
    changes: broadcast::Sender<ResourceChange>,
    permits: Arc<Semaphore>,
    watched: SharedWatches<AbortOnDrop>,
}

impl<K: BuiltinScheme> BuiltinResources<K> {
    /// The source, and the group of tools that enables it.
    pub fn source(scheme: K, changes: &broadcast::Sender<ResourceChange>) -> (Group, Arc<dyn Resources>) {
        let permits = Arc::new(Semaphore::new(MAX_WATCHES));
        let resources =
            BuiltinResources { scheme, changes: changes.clone(), permits, watched: SharedWatches::default() };
        (K::GROUP, Arc::new(resources))
    }

    fn id<'u>(&self, uri: &'u str) -> Result<&'u str, Error> {
        let id = uri.strip_prefix(K::SCHEME).and_then(|rest| rest.strip_prefix("://"));
        id.filter(|id| !id.is_empty()).ok_or_else(|| not_found(uri))
    }

    fn template() -> String {
        format!("{}://{{id}}", K::SCHEME)
    }

    async fn content(&self, uri: &str, context: RequestContext<'_>) -> Result<TypedBody, Error> {
        self.scheme.read(self.id(uri)?, context).await?.ok_or_else(|| not_found(uri))
    }
}

/// A watch task that is aborted with its last subscriber.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<K: BuiltinScheme> Resources for BuiltinResources<K> {
    fn claims(&self, uri: &str) -> bool {
        uri.strip_prefix(K::SCHEME).is_some_and(|rest| rest.starts_with(':'))
    }

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Resource>> {
        Box::pin(async move {
            let items = self.scheme.list(cursor, context).await?;
            let last = items.last().filter(|_| items.len() >= PAGE_SIZE).map(|last| last.uri.as_str());
            let next = last.map(|uri| self.id(uri).map(str::to_owned)).transpose()?;
            Ok(Page { items, next, cache_policy: CachePolicy::default() })
        })
    }

    fn templates<'a>(
        &'a self,
        cursor: Option<&'a str>,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<ResourceTemplate>> {
        let template = ResourceTemplate {
            uri_template: Self::template(),
            name: K::SCHEME.to_owned(),
            title: None,
            description: Some(K::DESCRIPTION.to_owned()),
            mime: None,
            extra: Extra::default(),
        };
        Box::pin(std::future::ready(match cursor {
            None => Ok(Page::whole(vec![template])),
            Some(_) => Err(unknown_cursor()),
        }))
    }

    fn read<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, ReadResult> {
        Box::pin(async move {
            let TypedBody { mime, body } = self.content(uri, context).await?;
            let part = ResourceContents { uri: uri.to_owned(), mime: Some(mime), body, meta: None };
            Ok(ReadResult { parts: vec![part], cache_policy: CachePolicy::default() })
        })
    }

    fn write<'a>(&'a self, part: ResourceContents, context: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(async move {
            self.content(&part.uri, context).await?;
            Err(read_only(&part.uri, "Toolyard itself"))
        })
    }

    fn delete<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(async move {
            self.content(uri, context).await?;
            Err(read_only(uri, "Toolyard itself"))
        })
    }

    fn complete<'a>(
        &'a self,
        uri: &'a str,
        completing: CompletionRequest,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        Box::pin(async move {
            if uri != Self::template() {
                return Err(not_found(uri));
            }
            if completing.argument != "id" {
                return Err(Error::new(ErrorKind::InvalidInput, "the template has no such variable"));
            }
            let found = self.scheme.list(None, context).await?;
            let ids = found.iter().filter_map(|resource| self.id(&resource.uri).ok());
            let values = ids.filter(|id| id.starts_with(&completing.value)).map(str::to_owned).collect();
            Ok(Completion { values, total: None })
        })
    }

    fn watch<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, WatchGuard> {
        Box::pin(async move {
            self.content(uri, context).await?;
            let (changes, uri) = (self.changes.clone(), Arc::<str>::from(uri));
            let changed_uri = uri.clone();
            let on_change = Box::new(move || {
                let _ = changes.send(ResourceChange::Updated(changed_uri.clone()));
            });
            let Some(watch_future) = self.scheme.watch(self.id(&uri)?, context, on_change) else {
                return Ok(WatchGuard(Box::new(())));
            };
            let task = self.watched.get(&uri, || {
                let permit = self.permits.clone().try_acquire_owned().map_err(|_| {
                    Error::new(ErrorKind::Busy, format!("the limit of {MAX_WATCHES} watches is reached"))
                })?;
                Ok(AbortOnDrop(tokio::spawn(async move {
                    watch_future.await;
                    drop(permit);
                })))
            })?;
            Ok(WatchGuard(Box::new(task)))
        })
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.changes.subscribe()
    }
}
