//! `subscriptions/listen`: the notifications that a stateless client subscribes to.

use super::Revision;
use super::notifications::tag;
use super::result::SERVER_INFO;
use crate::jsonrpc::{self, Params, RequestId};
use toolyard_formats::json::{self, Object};
use toolyard_protocol::Id;

/// The notifications that one stream carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    pub uris: Vec<String>,
    pub tasks: Vec<Id>,
}

/// The maximum number of URIs, and of task ids, per stream.
pub const MAX_FOLLOWED: usize = 1000;

pub fn read(params: &Params) -> Result<Filter, String> {
    let raw = params.object("notifications")?.ok_or("'notifications' is missing")?;
    let mut filter = Filter::default();
    for (name, range) in json::members(&raw).ok().flatten().unwrap_or_default() {
        let value = &raw[range];
        let flag = value == b"true";
        match name.as_ref() {
            "toolsListChanged" => filter.tools = flag,
            "promptsListChanged" => filter.prompts = flag,
            "resourcesListChanged" => filter.resources = flag,
            "resourceSubscriptions" => filter.uris = texts(value, &name)?,
            "taskIds" => {
                filter.tasks = texts(value, &name)?.iter().filter_map(|text| Id::parse(text)).collect();
            }
            _ => {}
        }
    }
    Ok(filter)
}

fn texts(raw: &[u8], name: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("'{name}' must be a list of at most {MAX_FOLLOWED} strings");
    let ranges = jsonrpc::elements(raw, MAX_FOLLOWED + 1).map_err(|_| wrong())?;
    if raw.first() != Some(&b'[') || ranges.len() > MAX_FOLLOWED {
        return Err(wrong());
    }
    ranges.into_iter().map(|range| jsonrpc::text(&raw[range]).ok_or_else(wrong)).collect()
}

/// The first message on the stream: the accepted part of the subscription.
pub fn acknowledged(id: &RequestId, filter: &Filter) -> Vec<u8> {
    jsonrpc::notification("notifications/subscriptions/acknowledged", |params| {
        tag(params, Some(id));
        let mut object = Object::new(params.member("notifications"));
        for (name, wanted) in [
            ("toolsListChanged", filter.tools),
            ("promptsListChanged", filter.prompts),
            ("resourcesListChanged", filter.resources),
        ] {
            if wanted {
                object.bool(name, true);
            }
        }
        if !filter.uris.is_empty() {
            object.texts("resourceSubscriptions", filter.uris.iter().map(String::as_str));
        }
        if !filter.tasks.is_empty() {
            let ids: Vec<String> = filter.tasks.iter().map(ToString::to_string).collect();
            object.texts("taskIds", ids.iter().map(String::as_str));
        }
        object.end();
    })
}

/// The last message, when the server ends the stream.
pub fn write_end(id: &RequestId, revision: Revision) -> Vec<u8> {
    jsonrpc::result(id, 200, |out| {
        let mut object = Object::new(out);
        if revision.is_stateless() {
            object.text("resultType", "complete");
        }
        let mut meta = Object::new(object.member("_meta"));
        meta.raw("io.modelcontextprotocol/serverInfo", SERVER_INFO.as_bytes());
        meta.raw("io.modelcontextprotocol/subscriptionId", id.as_bytes());
        meta.end();
        object.end();
    })
}
