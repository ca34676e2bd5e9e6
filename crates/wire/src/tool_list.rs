//! The tool list as JSON: `list --json` and `show --json`.

use toolyard_formats::json::{self, Object};
use toolyard_protocol::{Annotations, Payload, ToolSpec};

/// One row of the list: a tool, or a tool file that could not be loaded.
pub struct ToolRow<'a> {
    pub spec: Option<&'a ToolSpec>,
    pub source: &'a str,
    pub enabled: bool,
    pub problems: &'a [String],
}

pub fn write_list(rows: &[ToolRow<'_>]) -> Vec<u8> {
    json::objects(rows, push_row)
}

/// A tool as the command line lists it.
#[derive(serde::Deserialize)]
pub struct ToolSummary {
    pub exposed: Option<String>,
    pub kind: Option<String>,
    pub version: Option<String>,
    pub description: Option<String>,
}

pub fn read_list(json: &[u8]) -> Result<Vec<ToolSummary>, String> {
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

/// The input schema of a tool that [`write_tool`] wrote.
pub fn input_schema(tool: &bytes::Bytes) -> Option<Payload> {
    let range = toolyard_formats::json::pointer(tool, "/inputSchema").ok().flatten()?;
    Some(tool.slice(range)).filter(|raw| raw.as_ref() != b"null").map(Payload::json)
}

/// The row of `list` with all further details of the tool.
pub fn write_tool(row: &ToolRow<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let mut object = Object::new(&mut out);
    push_row(&mut object, row);
    if let Some(spec) = row.spec {
        object.text_or_null("title", spec.about.title.as_deref());
        push_annotations(object.member("annotations"), &spec.annotations);
        let mut limits = Object::new(object.member("limits"));
        limits.number("timeoutMs", spec.limits.timeout.as_millis() as u64);
        limits.number("input", spec.limits.input as u64).number("output", spec.limits.output as u64);
        limits.end();
        object.text("digest", &spec.digest.hex());
        for (name, schema) in [("inputSchema", &spec.input_schema), ("outputSchema", &spec.output_schema)] {
            object.raw(name, schema.as_ref().map_or(b"null", |schema| schema.bytes()));
        }
    }
    object.end();
    out
}

fn push_row(object: &mut Object<'_>, row: &ToolRow<'_>) {
    object.text_or_null("name", row.spec.map(|spec| spec.name.as_str()));
    object.text_or_null("exposed", row.spec.map(|spec| spec.exposed.as_str()));
    object.text_or_null("kind", row.spec.map(|spec| spec.kind));
    object.text("source", row.source);
    let version = row.spec.and_then(|spec| spec.about.version.as_ref()).map(ToString::to_string);
    object.text_or_null("version", version.as_deref());
    object.text_or_null("description", row.spec.and_then(|spec| spec.about.description.as_deref()));
    object.text_or_null("timing", row.spec.map(|spec| spec.timing.as_str()));
    object.text_or_null("sandbox", row.spec.map(|spec| spec.sandbox.as_str()));
    object.bool("enabled", row.enabled).texts("problems", row.problems.iter().map(String::as_str));
}

fn push_annotations(out: &mut Vec<u8>, annotations: &Annotations) {
    let mut object = Object::new(out);
    for (name, hint) in [
        ("readOnlyHint", annotations.read_only),
        ("destructiveHint", annotations.destructive),
        ("idempotentHint", annotations.idempotent),
        ("openWorldHint", annotations.open_world),
    ] {
        if let Some(hint) = hint {
            object.bool(name, hint);
        }
    }
    object.end();
}
