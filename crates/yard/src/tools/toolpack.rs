//! `*.tool.yaml`: the toolpack format.

use super::shared_fields::{self, bytes, default_timeout, timeout};
use super::tool_reader::{Checked, FileContext, Parts, ToolReader};
use crate::kinds::FileFormat;
use toolyard_formats::doc::{Fields, Node, Problem};
use toolyard_runtimes::sandbox_builder::SandboxRequest;

/// Known fields that would have no effect in this version; they are refused, never ignored.
const UNSUPPORTED_FIELDS: &[(&str, &str)] = &[
    ("warm", "workers that stay alive between calls are not supported yet"),
    ("elevate", "elevated calls are not supported yet"),
    ("spill", "results over the output limit cannot be stored yet"),
    ("errors", "it belongs to specification pages, which are not supported yet"),
    ("security", "it belongs to specification pages, which are not supported yet"),
];

pub fn read(node: &Node, context: FileContext<'_>) -> Result<Checked, Vec<Problem>> {
    let mut fields = Fields::open(node, "").map_err(|problem| vec![problem])?;
    let id = fields.required_text("id", "give the tool a name, for example id: word_count");
    let kind = ToolReader::kind(&mut fields, "kind", FileFormat::Toolpack);
    let mut shared = shared_fields::read(&mut fields, "title", SandboxRequest::pack(), &context);
    shared.env = shared_fields::env(&mut fields, "env");
    let mut limits = context.loader.settings().defaults.pack;
    limits.timeout = timeout(&mut fields, "timeoutMs", default_timeout(shared.timing, limits.timeout));
    if let Some(mut map) = fields.map("limits") {
        limits.input = bytes(&mut map, "input", limits.input);
        limits.output = bytes(&mut map, "output", limits.output);
        fields.close(map);
    }
    let reader = ToolReader::new(context, shared);
    let runnable = kind.and_then(|kind| (kind.read)(&mut fields, &reader));
    let schemas = reader.schemas(&mut fields, ["input", "output"]);
    let cache_key = reader.cache_key(&mut fields);
    let id = id.map(|(id, position)| (id.to_owned(), position));
    reader.finish(fields, UNSUPPORTED_FIELDS, Parts { id, kind, runnable, limits, schemas, cache_key })
}
