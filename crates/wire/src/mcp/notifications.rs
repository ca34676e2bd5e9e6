//! Notifications of the server.

use super::Revision;
use crate::jsonrpc::{self, Notification, RequestId};
use toolyard_formats::json::Object;
use toolyard_protocol::{LogLine, Progress};

pub const TOOLS: &str = "notifications/tools/list_changed";
pub const PROMPTS: &str = "notifications/prompts/list_changed";
pub const RESOURCES: &str = "notifications/resources/list_changed";

const CANCELLED: &str = "notifications/cancelled";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// `token` is the raw token of the request.
pub fn progress(token: &[u8], progress: &Progress, revision: Revision) -> Vec<u8> {
    jsonrpc::notification("notifications/progress", |params| {
        params.raw("progressToken", token).raw("progress", number(progress.done).as_bytes());
        // A total that is less than what is done was an estimate; it says nothing any more.
        if let Some(total) = progress.total.filter(|total| *total >= progress.done) {
            params.raw("total", number(total).as_bytes());
        }
        if let Some(message) = progress.message.as_deref().filter(|_| revision.has_annotations()) {
            params.text("message", message);
        }
    })
}

pub fn message(line: &LogLine) -> Vec<u8> {
    jsonrpc::notification("notifications/message", |params| {
        params.text("level", line.level.as_str());
        if let Some(logger) = &line.logger {
            params.text("logger", logger);
        }
        params.raw("data", line.data.bytes());
    })
}

/// A list changed; `subscription` is the request that subscribed to it, if there is one.
pub fn list_changed(method: &str, subscription: Option<&RequestId>) -> Vec<u8> {
    jsonrpc::notification(method, |params| tag(params, subscription))
}

pub fn resource_updated(uri: &str, subscription: Option<&RequestId>) -> Vec<u8> {
    jsonrpc::notification("notifications/resources/updated", |params| {
        tag(params, subscription);
        params.text("uri", uri);
    })
}

pub fn cancelled(request: &RequestId, reason: &str) -> Vec<u8> {
    jsonrpc::notification(CANCELLED, |params| {
        params.raw("requestId", request.as_bytes()).text("reason", reason);
    })
}

/// The request that a client cancels.
pub fn read_cancelled(notification: &Notification) -> Option<RequestId> {
    let raw = notification.params.get("requestId")?;
    RequestId::parse(&raw).filter(|_| notification.method == CANCELLED)
}

/// Adds the id of the subscription to a message.
pub(super) fn tag(params: &mut Object<'_>, subscription: Option<&RequestId>) {
    if let Some(id) = subscription {
        let mut meta = Object::new(params.member("_meta"));
        meta.raw(SUBSCRIPTION, id.as_bytes());
        meta.end();
    }
}

/// A JSON number; infinite and undefined values become 0.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { "0".to_owned() }
}
