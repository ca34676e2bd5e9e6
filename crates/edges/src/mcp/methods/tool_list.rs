//! The tools as MCP clients see them: pages of the list, and the arguments that are mirrored in headers.

use crate::mcp::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolyard_engine::{Entry, Registry, Snapshot};
use toolyard_protocol::{CachePolicy, Page};
use toolyard_wire::jsonrpc::{Params, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::headers::{self, HeaderParam};
use toolyard_wire::mcp::{Revision, lists, tools};

/// Tools on one page. Many clients read the first page only.
const PAGE_SIZE: usize = 1000;

/// A reload sends a notification; who does not listen may be this late.
pub(in crate::mcp) const LIST_CACHE_HINT: CachePolicy =
    CachePolicy { ttl: Duration::from_secs(5), shared: false };

/// What was worked out about the current snapshot.
#[derive(Default)]
pub(in crate::mcp) struct HeaderMirrorCache(Mutex<Option<(Arc<Snapshot>, Arc<MirrorsByTool>)>>);

type MirrorsByTool = HashMap<Box<str>, Vec<HeaderParam>>;

impl HeaderMirrorCache {
    /// The mirrored arguments of the tools that have some.
    pub fn by_tool(&self, registry: &Registry) -> Arc<MirrorsByTool> {
        let snapshot = registry.snapshot();
        let mut cached = lock(&self.0);
        match cached.as_ref() {
            Some((known, mirrored)) if Arc::ptr_eq(known, &snapshot) => mirrored.clone(),
            _ => {
                let mirrored = Arc::new(mirrors_by_tool(&snapshot));
                *cached = Some((snapshot, mirrored.clone()));
                mirrored
            }
        }
    }
}

fn mirrors_by_tool(snapshot: &Snapshot) -> MirrorsByTool {
    let mut found = HashMap::new();
    for entry in snapshot.entries() {
        let schema = entry.spec.input_schema.as_ref();
        let header_params = schema.map(|schema| headers::header_params(schema.bytes())).unwrap_or_default();
        if !header_params.is_empty() {
            found.insert(entry.spec.exposed.as_str().into(), header_params.clone());
            found.insert(entry.spec.name.as_str().into(), header_params);
        }
    }
    found
}

/// One page of `tools/list`. A cursor names the last tool of the page before, so that it survives a reload.
pub(in crate::mcp) fn list(
    snapshot: &Snapshot,
    id: &RequestId,
    params: &Params,
    revision: Revision,
) -> Result<Vec<u8>, Failure> {
    let entries = snapshot.entries();
    let from = match lists::read_cursor(params)? {
        None => 0,
        Some(cursor) => {
            let last = lists::decode_cursor(&cursor)?;
            entries.partition_point(|entry| entry.spec.name.as_str() <= last.as_str())
        }
    };
    let items: Vec<&Arc<Entry>> = entries[from..].iter().take(PAGE_SIZE).collect();
    let more = from + items.len() < entries.len();
    let next = items.last().filter(|_| more).map(|entry| lists::cursor_after(entry.spec.name.as_str()));
    let page = Page { items, next, cache_policy: LIST_CACHE_HINT };
    Ok(lists::write(id, revision, "tools", &page, |out, entry| tools::push_tool(out, &entry.spec, revision)))
}
