//! Pages of lists: cursors and cache policy.

use super::Revision;
use crate::jsonrpc::{self, Params, RequestId};
use toolyard_formats::json::{Object, array};
use toolyard_protocol::{CachePolicy, Page, base64};

/// The cursor that a client sends back; an error if it is not a string.
pub fn read_cursor(params: &Params) -> Result<Option<String>, String> {
    params.text("cursor")
}

/// A cursor that points after the item with that name.
pub fn cursor_after(name: &str) -> String {
    base64::encode(format!("after:{name}").as_bytes())
}

/// The name in a cursor of [`cursor_after`].
pub fn decode_cursor(cursor: &str) -> Result<String, String> {
    let text = base64::decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let name = text.as_deref().and_then(|text| text.strip_prefix("after:"));
    name.map(str::to_owned).ok_or_else(|| "unknown cursor".to_owned())
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
        array(result.member(member), &page.items, push);
        if let Some(next) = &page.next {
            result.text("nextCursor", next);
        }
        push_cache_policy(&mut result, revision, page.cache_policy);
        result.end();
    })
}

/// Writes `ttlMs` and `cacheScope`, which only stateless revisions have.
pub fn push_cache_policy(object: &mut Object<'_>, revision: Revision, cache_policy: CachePolicy) {
    if revision.is_stateless() {
        object.number("ttlMs", u64::try_from(cache_policy.ttl.as_millis()).unwrap_or(u64::MAX));
        object.text("cacheScope", if cache_policy.shared { "public" } else { "private" });
    }
}
