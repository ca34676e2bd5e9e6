//! Resources a client can read: their descriptions, contents and cache policy.

use crate::Payload;
use bytes::Bytes;
use std::time::Duration;

/// One resource, as a list shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    pub uri: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime: Option<String>,
    /// Bytes, before any encoding.
    pub size: Option<u64>,
    pub extra: Extra,
}

/// A family of resources whose URIs follow an RFC 6570 template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTemplate {
    pub uri_template: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime: Option<String>,
    pub extra: Extra,
}

/// Members in MCP's shape that are passed through unchanged; each is raw JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// `{audience, priority, lastModified}`.
    pub annotations: Option<Payload>,
    /// An array of icons.
    pub icons: Option<Payload>,
    /// `_meta`.
    pub meta: Option<Payload>,
}

/// The result of a read: usually one part, several for a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadResult {
    pub parts: Vec<ResourceContents>,
    pub cache_policy: CachePolicy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceContents {
    pub uri: String,
    pub mime: Option<String>,
    pub body: Body,
    /// `_meta`, raw JSON.
    pub meta: Option<Payload>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Text(String),
    Blob(Bytes),
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The source's cursor for the next page; none after the last page.
    pub next: Option<String>,
    pub cache_policy: CachePolicy,
}

/// How long a client may cache a result, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePolicy {
    pub ttl: Duration,
    /// The result is the same for every caller; otherwise it is private to this one.
    pub shared: bool,
}

impl Body {
    /// Bytes, before any encoding.
    pub fn len(&self) -> usize {
        match self {
            Body::Text(text) => text.len(),
            Body::Blob(bytes) => bytes.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Page<T> {
    /// A list with a single page.
    pub fn whole(items: Vec<T>) -> Page<T> {
        Page { items, next: None, cache_policy: CachePolicy::default() }
    }
}

/// Not cacheable, and private to the caller.
impl Default for CachePolicy {
    fn default() -> CachePolicy {
        CachePolicy { ttl: Duration::ZERO, shared: false }
    }
}
