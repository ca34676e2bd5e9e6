//! Things a client can read: what they are called, what is in them, how long a copy may be kept.

use crate::Payload;
use bytes::Bytes;
use std::time::Duration;

/// One readable thing, as a list shows it.
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

/// A family of resources: an RFC 6570 template makes their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTemplate {
    pub uri_template: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime: Option<String>,
    pub extra: Extra,
}

/// Members in MCP's own shape that we only pass on; each is raw JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// `{audience, priority, lastModified}`.
    pub annotations: Option<Payload>,
    /// An array of icons.
    pub icons: Option<Payload>,
    /// `_meta`.
    pub meta: Option<Payload>,
}

/// What reading gives: usually one part, more for a folder.
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
    /// Where the next page starts, in the source's own words; none after the last one.
    pub next: Option<String>,
    pub cache_policy: CachePolicy,
}

/// How long a client may keep what it was told, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePolicy {
    pub ttl: Duration,
    /// Everyone gets the same; else it is for this caller alone.
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
    /// Everything at once.
    pub fn whole(items: Vec<T>) -> Page<T> {
        Page { items, next: None, cache_policy: CachePolicy::default() }
    }
}

/// Ask again each time, and tell no one else.
impl Default for CachePolicy {
    fn default() -> CachePolicy {
        CachePolicy { ttl: Duration::ZERO, shared: false }
    }
}
