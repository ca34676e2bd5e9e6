//! The context object for tools with `context: true`.

use toolyard_formats::json::Object;
use toolyard_protocol::{Call, Timestamp};

/// The context of the call as one line of JSON.
pub fn write(call: &Call, root: &str, deadline: Timestamp) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let mut object = Object::new(&mut out);
    object.text("caller", call.identity.as_str()).text("edge", call.edge.as_str());
    object.text("callId", call.id.text().as_str()).raw("conversationId", b"null");
    object.texts("roots", [format!("file://{root}").as_str()]);
    object.text_or_null("traceparent", call.trace.as_ref().map(|trace| trace.as_str()));
    object.text("locale", "C.UTF-8").raw("permissions", b"[]");
    object.text("deadline", deadline.text().as_str());
    object.end();
    out
}
