//! What clients can read, write and watch. Edges see this trait; the yard's files, artifacts, job results and upstream
//! servers stand behind it.
//!
//! Errors: an address that is not there, or not for this caller, is `ErrorKind::ResourceNotFound`; a cursor that was
//! not given out is `ErrorKind::InvalidInput`; what a root does not allow is `ErrorKind::Forbidden`.

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
    /// Whether there can be any; an edge that has none does not advertise them.
    fn is_available(&self) -> bool {
        true
    }

    /// Whether addresses, or templates, that begin like this one are this source's. Of several sources the first that
    /// says so is asked, and no other.
    fn claims(&self, _uri: &str) -> bool {
        true
    }

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Resource>>;

    fn templates<'a>(
        &'a self,
        cursor: Option<&'a str>,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<ResourceTemplate>>;

    /// A resource that a tool makes may ask its caller.
    fn read<'a>(&'a self, uri: &'a str, request_context: RequestContext<'a>)
    -> RequestFuture<'a, ReadResult>;

    /// Replaces the content of `part.uri`, or makes it.
    fn write<'a>(
        &'a self,
        part: ResourceContents,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, ()>;

    fn delete<'a>(&'a self, uri: &'a str, request_context: RequestContext<'a>) -> RequestFuture<'a, ()>;

    /// Suggestions for a variable of a template.
    fn complete<'a>(
        &'a self,
        uri_template: &'a str,
        completing: CompletionRequest,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion>;

    /// Begins to watch one address. Its changes appear in [`Resources::changes`] until the watch is dropped; several
    /// watches of one address are each told of once.
    fn watch<'a>(
        &'a self,
        uri: &'a str,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, WatchGuard>;

    /// Everything that changes from now on. Who falls behind is told that the list changed.
    fn changes(&self) -> broadcast::Receiver<ResourceChange>;
}

/// Keeps a watch going; what is inside is the source's own.
pub struct WatchGuard(pub Box<dyn Any + Send + Sync>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceChange {
    /// The content of a watched address.
    Updated(Arc<str>),
    /// Which resources and templates there are.
    List,
}

/// No resources at all.
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

/// The error for an address that is not there.
pub fn not_found(uri: &str) -> Error {
    let shown: String = toolyard_protocol::text::escape_control(uri).chars().take(200).collect();
    Error::new(ErrorKind::ResourceNotFound, format!("there is no resource '{shown}'"))
        .hint("list the resources and templates to see what there is")
}

/// The error for a cursor that no list gave out.
pub fn unknown_cursor() -> Error {
    Error::new(ErrorKind::InvalidInput, "this cursor was not given out here")
        .hint("list from the start, without a cursor")
}
