//! Resources that clients can read, write and watch. Edges use this trait; the yard's files, artifacts, job
//! results and upstream servers implement it.
//!
//! Errors: a URI that does not exist or is hidden from this caller is `ErrorKind::ResourceNotFound`; an
//! unknown cursor is `ErrorKind::InvalidInput`; what a root does not allow is `ErrorKind::Forbidden`.

mod combined;
mod gated;

pub use combined::CombinedResources;
pub use gated::GatedResources;

use crate::request_context::{RequestContext, RequestFuture};
use std::any::Any;
use std::sync::Arc;
use tokio::sync::broadcast;
use toolyard_protocol::{
    Completion, CompletionRequest, Error, ErrorKind, Page, ReadResult, Resource, ResourceContents,
    ResourceTemplate,
};

pub trait Resources: Send + Sync {
    /// Whether resources are supported; edges advertise the capability only if so.
    fn is_available(&self) -> bool {
        true
    }

    /// Whether this URI or template belongs to this source. Of several sources, only the first that claims it
    /// is used.
    fn claims(&self, _uri: &str) -> bool {
        true
    }

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Resource>>;

    fn templates<'a>(
        &'a self,
        cursor: Option<&'a str>,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<ResourceTemplate>>;

    /// A resource produced by a tool may ask the caller for input.
    fn read<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, ReadResult>;

    /// Replaces the content of `part.uri`, or creates it.
    fn write<'a>(&'a self, part: ResourceContents, context: RequestContext<'a>) -> RequestFuture<'a, ()>;

    fn delete<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, ()>;

    /// Suggestions for a variable of a template.
    fn complete<'a>(
        &'a self,
        uri_template: &'a str,
        completing: CompletionRequest,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion>;

    /// Starts watching one URI. Its changes appear in [`Resources::changes`] until the guard is dropped; each
    /// change appears once, however many watches the URI has.
    fn watch<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, WatchGuard>;

    /// All changes from now on. A subscriber that lags behind must assume that the list changed.
    fn changes(&self) -> broadcast::Receiver<ResourceChange>;
}

/// Keeps a watch active; the content is private to the source.
pub struct WatchGuard(pub Box<dyn Any + Send + Sync>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceChange {
    /// The content of a watched URI changed.
    Updated(Arc<str>),
    /// The list of resources or templates changed.
    List,
}

/// Resources are not supported.
pub struct NoResources(broadcast::Sender<ResourceChange>);

impl Default for NoResources {
    fn default() -> NoResources {
        NoResources(broadcast::Sender::new(1))
    }
}

impl Resources for NoResources {
    fn is_available(&self) -> bool {
        false
    }

    fn list<'a>(&'a self, _: Option<&'a str>, _: RequestContext<'a>) -> RequestFuture<'a, Page<Resource>> {
        Box::pin(std::future::ready(Ok(Page::whole(Vec::new()))))
    }

    fn templates<'a>(
        &'a self,
        _: Option<&'a str>,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<ResourceTemplate>> {
        Box::pin(std::future::ready(Ok(Page::whole(Vec::new()))))
    }

    fn read<'a>(&'a self, uri: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, ReadResult> {
        Box::pin(std::future::ready(Err(not_found(uri))))
    }

    fn write<'a>(&'a self, part: ResourceContents, _: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(std::future::ready(Err(not_found(&part.uri))))
    }

    fn delete<'a>(&'a self, uri: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(std::future::ready(Err(not_found(uri))))
    }

    fn complete<'a>(
        &'a self,
        uri: &'a str,
        _: CompletionRequest,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        Box::pin(std::future::ready(Err(not_found(uri))))
    }

    fn watch<'a>(&'a self, uri: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, WatchGuard> {
        Box::pin(std::future::ready(Err(not_found(uri))))
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.0.subscribe()
    }
}

/// The error for an unknown URI.
pub fn not_found(uri: &str) -> Error {
    let shown: String = toolyard_protocol::text::escape_control(uri).chars().take(200).collect();
    Error::new(ErrorKind::ResourceNotFound, format!("there is no resource '{shown}'"))
        .hint("list the resources and templates to see what is available")
}

/// The error for a cursor that no list returned.
pub fn unknown_cursor() -> Error {
    Error::new(ErrorKind::InvalidInput, "unknown cursor").hint("list from the start, without a cursor")
}
