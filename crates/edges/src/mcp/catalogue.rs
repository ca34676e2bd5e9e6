//! The tools as MCP clients see them: pages of the list, and the arguments that are mirrored in headers.

use super::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolyard_engine::{Entry, Registry, Snapshot};
use toolyard_protocol::{Keep, Page};
use toolyard_wire::jsonrpc::{Params, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::headers::{self, Mirror};
use toolyard_wire::mcp::{Revision, lists, tools};

/// Tools on one page. Many clients read the first page only.
const PAGE: usize = 1000;

/// A reload sends a notification; who does not listen may be this late.
pub(super) const KEEP: Keep = Keep { ttl: Duration::from_secs(5), shared: false };

/// What was worked out about the current snapshot.
#[derive(Default)]
pub(super) struct Catalogues(Mutex<Option<(Arc<Snapshot>, Arc<Mirrored>)>>);

type Mirrored = HashMap<Box<str>, Vec<Mirror>>;

impl Catalogues {
    /// The mirrored arguments of the tools that have some.
    pub fn mirrored(&self, registry: &Registry) -> Arc<Mirrored> {
        let snapshot = registry.snapshot();
        let mut kept = lock(&self.0);
        match kept.as_ref() {
            Some((known, mirrored)) if Arc::ptr_eq(known, &snapshot) => mirrored.clone(),
            _ => {
                let mirrored = Arc::new(mirrored(&snapshot));
                *kept = Some((snapshot, mirrored.clone()));
                mirrored
            }
        }
    }
}

fn mirrored(snapshot: &Snapshot) -> Mirrored {
    let mut found = HashMap::new();
    for entry in snapshot.entries() {
        let schema = entry.spec.input_schema.as_ref();
        let mirrors = schema.map(|schema| headers::mirrors(schema.bytes())).unwrap_or_default();
        if !mirrors.is_empty() {
            found.insert(entry.spec.exposed.as_str().into(), mirrors.clone());
            found.insert(entry.spec.name.as_str().into(), mirrors);
        }
    }
    found
}

/// One page of `tools/list`. A cursor names the last tool of the page before, so that it survives a reload.
pub(super) fn list(
    snapshot: &Snapshot,
    id: &RequestId,
    params: &Params,
    revision: Revision,
) -> Result<Vec<u8>, Failure> {
    let entries = snapshot.entries();
    let from = match lists::read_cursor(params)? {
        None => 0,
        Some(cursor) => {
            let last = lists::position(&cursor)?;
            entries.partition_point(|entry| entry.spec.name.as_str() <= last.as_str())
        }
    };
    let items: Vec<&Arc<Entry>> = entries[from..].iter().take(PAGE).collect();
    let more = from + items.len() < entries.len();
    let next = items.last().filter(|_| more).map(|entry| lists::after(entry.spec.name.as_str()));
    let page = Page { items, next, keep: KEEP };
    Ok(lists::write(id, revision, "tools", &page, |out, entry| tools::push_tool(out, &entry.spec, revision)))
}
