//! What Toolyard itself keeps, as resources that can be read: artifacts, job results, tool specifications. Each is there
//! where `[builtin]` turns its tools on, and shows to a caller what those tools would.

mod artifacts;
mod jobs;
mod tools;

pub use artifacts::Artifacts;
pub use jobs::JobResults;
pub use tools::ToolSpecs;

use super::once::Once;
use super::read_only;
use crate::builtin::{Group, Selection};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinHandle;
use toolyard_engine::resources::{not_found, unknown_cursor};
use toolyard_engine::{Behalf, Found, ResourceChange, Resources, Watch};
use toolyard_protocol::{
    Completing, Completion, Error, ErrorKind, Extra, Keep, Page, Part, Reading, Resource, ResourceTemplate,
};

/// One kind of kept thing: `SCHEME://ID`.
pub trait Kind: Send + Sync + 'static {
    const SCHEME: &'static str;
    const GROUP: Group;
    const DESCRIPTION: &'static str;

    /// Newest first, or by name; `cursor` is the last id of the page before.
    fn list<'a>(&'a self, cursor: Option<&'a str>, behalf: Behalf<'a>) -> Found<'a, Vec<Resource>>;

    /// `None` when there is no such thing for this caller.
    fn read<'a>(&'a self, id: &'a str, behalf: Behalf<'a>) -> Found<'a, Option<Content>>;

    /// Calls `tell` after each change of the content, and ends when there will be no more; `None` for what never
    /// changes.
    fn follow(&self, id: &str, behalf: Behalf<'_>, tell: Tell) -> Option<Following>;
}

/// What a kind gives for an id.
pub struct Content {
    pub mime: String,
    pub body: toolyard_protocol::Body,
}

pub type Tell = Box<dyn Fn() + Send + Sync>;
pub type Following = Pin<Box<dyn Future<Output = ()> + Send>>;

pub const PAGE: usize = 100;
/// Watches of kept things that go on at the same time.
const MAX_WATCHES: usize = 1000;

/// A kind as a source of resources.
pub struct Kept<K> {
    kind: K,
    notices: broadcast::Sender<ResourceChange>,
    places: Arc<Semaphore>,
    watched: Once<Task>,
}

impl<K: Kind> Kept<K> {
    pub fn if_on(
        on: &Selection,
        kind: K,
        notices: &broadcast::Sender<ResourceChange>,
    ) -> Option<Arc<dyn Resources>> {
        let places = Arc::new(Semaphore::new(MAX_WATCHES));
        let kept = Kept { kind, notices: notices.clone(), places, watched: Once::default() };
        on.has(K::GROUP).then(|| Arc::new(kept) as Arc<dyn Resources>)
    }

    fn id<'u>(&self, uri: &'u str) -> Result<&'u str, Error> {
        let id = uri.strip_prefix(K::SCHEME).and_then(|rest| rest.strip_prefix("://"));
        id.filter(|id| !id.is_empty()).ok_or_else(|| not_found(uri))
    }

    fn template() -> String {
        format!("{}://{{id}}", K::SCHEME)
    }

    async fn content(&self, uri: &str, behalf: Behalf<'_>) -> Result<Content, Error> {
        self.kind.read(self.id(uri)?, behalf).await?.ok_or_else(|| not_found(uri))
    }
}

/// Stops with the last watch.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<K: Kind> Resources for Kept<K> {
    fn claims(&self, uri: &str) -> bool {
        uri.strip_prefix(K::SCHEME).is_some_and(|rest| rest.starts_with(':'))
    }

    fn list<'a>(&'a self, cursor: Option<&'a str>, behalf: Behalf<'a>) -> Found<'a, Page<Resource>> {
        Box::pin(async move {
            let items = self.kind.list(cursor, behalf).await?;
            let last = items.last().filter(|_| items.len() >= PAGE).map(|last| last.uri.as_str());
            let next = last.map(|uri| self.id(uri).map(str::to_owned)).transpose()?;
            Ok(Page { items, next, keep: Keep::default() })
        })
    }

    fn templates<'a>(&'a self, cursor: Option<&'a str>, _: Behalf<'a>) -> Found<'a, Page<ResourceTemplate>> {
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

    fn read<'a>(&'a self, uri: &'a str, behalf: Behalf<'a>) -> Found<'a, Reading> {
        Box::pin(async move {
            let Content { mime, body } = self.content(uri, behalf).await?;
            let part = Part { uri: uri.to_owned(), mime: Some(mime), body, meta: None };
            Ok(Reading { parts: vec![part], keep: Keep::default() })
        })
    }

    fn write<'a>(&'a self, part: Part, behalf: Behalf<'a>) -> Found<'a, ()> {
        Box::pin(async move {
            self.content(&part.uri, behalf).await?;
            Err(read_only(&part.uri, "what Toolyard keeps"))
        })
    }

    fn delete<'a>(&'a self, uri: &'a str, behalf: Behalf<'a>) -> Found<'a, ()> {
        Box::pin(async move {
            self.content(uri, behalf).await?;
            Err(read_only(uri, "what Toolyard keeps"))
        })
    }

    fn complete<'a>(
        &'a self,
        uri: &'a str,
        completing: Completing,
        behalf: Behalf<'a>,
    ) -> Found<'a, Completion> {
        Box::pin(async move {
            if uri != Self::template() {
                return Err(not_found(uri));
            }
            if completing.argument != "id" {
                return Err(Error::new(ErrorKind::InvalidInput, "the template has no such variable"));
            }
            let found = self.kind.list(None, behalf).await?;
            let ids = found.iter().filter_map(|resource| self.id(&resource.uri).ok());
            let values = ids.filter(|id| id.starts_with(&completing.value)).map(str::to_owned).collect();
            Ok(Completion { values, total: None })
        })
    }

    fn watch<'a>(&'a self, uri: &'a str, behalf: Behalf<'a>) -> Found<'a, Watch> {
        Box::pin(async move {
            self.content(uri, behalf).await?;
            let (notices, uri) = (self.notices.clone(), Arc::<str>::from(uri));
            let told = uri.clone();
            let tell = Box::new(move || {
                let _ = notices.send(ResourceChange::Updated(told.clone()));
            });
            let Some(following) = self.kind.follow(self.id(&uri)?, behalf, tell) else {
                return Ok(Watch(Box::new(())));
            };
            let task = self.watched.get(&uri, || {
                let place = self.places.clone().try_acquire_owned().map_err(|_| {
                    Error::new(ErrorKind::Busy, format!("{MAX_WATCHES} of these are watched already"))
                })?;
                Ok(Task(tokio::spawn(async move {
                    following.await;
                    drop(place);
                })))
            })?;
            Ok(Watch(Box::new(task)))
        })
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.notices.subscribe()
    }
}
