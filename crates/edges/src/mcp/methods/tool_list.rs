//! `tools/list`: the tools as MCP clients see them, page by page.

use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::{Entry, Snapshot};
use toolyard_protocol::{CachePolicy, Page};
use toolyard_wire::jsonrpc::{Params, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::{Revision, lists, tools};

/// Tools on one page. Many clients read the first page only.
const PAGE_SIZE: usize = 1000;

/// A reload sends a notification; a client that does not subscribe to it may cache the list this long.
pub(in crate::mcp) const LIST_CACHE_HINT: CachePolicy =
    CachePolicy { ttl: Duration::from_secs(5), shared: false };

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
