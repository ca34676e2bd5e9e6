//! The list of tools, and the parameters of `tools/call`.

use super::Revision;
use crate::jsonrpc::Params;
use bytes::Bytes;
use toolyard_formats::json::{self, Object};
use toolyard_protocol::{Annotations, Payload, ToolSpec};

/// The parameters of `tools/call`.
pub struct CallParams {
    pub name: String,
    pub arguments: Payload,
}

pub fn read_call(params: &Params) -> Result<CallParams, String> {
    // MCP 1.0 also uses `tool_name`.
    let name = match params.text("name")? {
        Some(name) => name,
        None => params.text("tool_name")?.ok_or("'name' is missing")?,
    };
    let arguments = params.object("arguments")?.unwrap_or_else(|| Bytes::from_static(b"{}"));
    // Already checked with the message: one object, no duplicate members, limited depth.
    Ok(CallParams { name, arguments: Payload::json(arguments) })
}

/// Writes one tool of the list.
pub fn push_tool(out: &mut Vec<u8>, spec: &ToolSpec, revision: Revision) {
    let mut tool = Object::new(out);
    tool.text("name", spec.exposed.as_str());
    let about = &spec.about;
    if let Some(title) = about.title.as_deref().filter(|_| revision.has_structure()) {
        tool.text("title", title);
    }
    if let Some(description) = &about.description {
        tool.text("description", description);
    }
    push_input_schema(tool.member("inputSchema"), spec.input_schema.as_ref());
    if revision.has_structure()
        && let Some(schema) = &spec.output_schema
        && (revision.is_stateless() || is_object_schema(schema.bytes()))
    {
        tool.raw("outputSchema", schema.bytes());
    }
    if revision.has_annotations() {
        push_annotations(&mut tool, about.title.as_deref(), &spec.annotations);
    }
    tool.end();
}

/// Adds `type: "object"` at the root where missing: clients require it, and arguments are always an object.
fn push_input_schema(out: &mut Vec<u8>, schema: Option<&Payload>) {
    let bytes = schema.map_or(&b"{}"[..], |schema| schema.bytes());
    if is_object_schema(bytes) {
        return out.extend_from_slice(bytes);
    }
    let members = json::members(bytes).ok().flatten().unwrap_or_default();
    let mut object = Object::new(out);
    object.text("type", "object");
    for (name, range) in members.into_iter().filter(|(name, _)| name != "type") {
        object.raw(&name, &bytes[range]);
    }
    object.end();
}

fn is_object_schema(bytes: &[u8]) -> bool {
    let members = json::members(bytes).ok().flatten().unwrap_or_default();
    members.into_iter().any(|(name, range)| name == "type" && &bytes[range] == b"\"object\"")
}

fn push_annotations(tool: &mut Object<'_>, title: Option<&str>, annotations: &Annotations) {
    let hints = [
        ("readOnlyHint", annotations.read_only),
        ("destructiveHint", annotations.destructive),
        ("idempotentHint", annotations.idempotent),
        ("openWorldHint", annotations.open_world),
    ];
    if title.is_none() && hints.iter().all(|(_, hint)| hint.is_none()) {
        return;
    }
    let mut object = Object::new(tool.member("annotations"));
    if let Some(title) = title {
        object.text("title", title);
    }
    for (name, hint) in hints {
        if let Some(hint) = hint {
            object.bool(name, hint);
        }
    }
    object.end();
}
