//! Pages of lists: cursors, and how long a client may keep them.

use super::{Revision, base64};
use crate::json::Object;
use crate::jsonrpc::{self, Params, RequestId};
use toolyard_protocol::{Keep, Page};

/// The cursor a client sends back; opaque to it, so anything but a string is refused.
pub fn read_cursor(params: &Params) -> Result<Option<String>, String> {
    params.text("cursor")
}

/// A cursor that stands after the item of that name.
pub fn after(name: &str) -> String {
    base64::encode(format!("after:{name}").as_bytes())
}

/// The name that a cursor of [`after`] holds.
pub fn position(cursor: &str) -> Result<String, String> {
    let text = base64::decode(cursor).and_then(|bytes| String::from_utf8(bytes).ok());
    let name = text.as_deref().and_then(|text| text.strip_prefix("after:"));
    name.map(str::to_owned).ok_or_else(|| "this cursor was not given out here".to_owned())
}

/// One page: `member` is the list's name, `push` writes one item.
pub fn write<T>(
    id: &RequestId,
    revision: Revision,
    member: &str,
    page: &Page<T>,
    push: impl Fn(&mut Vec<u8>, &T),
) -> Vec<u8> {
    jsonrpc::result(id, page.items.len() * 128 + 200, |out| {
        let mut result = super::result::complete(out, revision);
        let list = result.member(member);
        list.push(b'[');
        for (i, item) in page.items.iter().enumerate() {
            if i > 0 {
                list.push(b',');
            }
            push(list, item);
        }
        list.push(b']');
        if let Some(next) = &page.next {
            result.text("nextCursor", next);
        }
        push_keep(&mut result, revision, page.keep);
        result.end();
    })
}

/// `ttlMs` and `cacheScope`, which only stateless clients know.
pub fn push_keep(object: &mut Object<'_>, revision: Revision, keep: Keep) {
    if revision.is_stateless() {
        object.number("ttlMs", u64::try_from(keep.ttl.as_millis()).unwrap_or(u64::MAX));
        object.text("cacheScope", if keep.shared { "public" } else { "private" });
    }
}
