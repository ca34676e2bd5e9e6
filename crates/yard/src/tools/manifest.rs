//! `tool.json`: the manifest format.

use super::sandbox;
use super::shared_fields::{self, bytes, default_timeout, timeout};
use super::tool_reader::{Checked, FileContext, Parts, ToolReader};
use crate::kinds::FileFormat;
use toolyard_formats::doc::{Fields, Node, Problem};
use toolyard_protocol::Limits;
use toolyard_runtimes::sandbox_builder::SandboxRequest;

const UNSUPPORTED_FIELDS: &[(&str, &str)] =
    &[("warm", "workers that stay alive between calls are not supported yet")];

pub fn read(node: &Node, context: FileContext<'_>) -> Result<Checked, Vec<Problem>> {
    let mut fields = Fields::open(node, "").map_err(|problem| vec![problem])?;
    let id = fields.required_text("id", "give the tool a name, for example \"id\": \"word_count\"");
    let kind = ToolReader::kind(&mut fields, "runtime", FileFormat::Manifest);
    let mut shared = shared_fields::read(&mut fields, "name", SandboxRequest::manifest(), &context);
    let mut limits = context.loader.settings().defaults.manifest;
    limits.timeout = default_timeout(shared.timing, limits.timeout);
    shared.env = policy(&mut fields, &mut limits, &mut shared.sandbox_request);
    if let Some(mut metadata) = fields.map("metadata") {
        let categories = metadata.texts("categories").unwrap_or_default();
        shared.about.categories = categories.into_iter().map(|(text, _)| text.to_owned()).collect();
        fields.close(metadata);
    }
    let reader = ToolReader::new(context, shared);
    let runnable = kind.and_then(|kind| (kind.read)(&mut fields, &reader));
    let schemas = reader.schemas(&mut fields, ["parameters", "returns"]);
    let cache_key = reader.cache_key(&mut fields);
    let id = id.map(|(id, position)| (id.to_owned(), position));
    reader.finish(fields, UNSUPPORTED_FIELDS, Parts { id, kind, runnable, limits, schemas, cache_key })
}

/// Reads the `policy` block; returns the variables to pass on.
fn policy(fields: &mut Fields<'_>, limits: &mut Limits, sandbox_request: &mut SandboxRequest) -> Vec<String> {
    let Some(mut policy) = fields.map("policy") else { return Vec::new() };
    limits.timeout = timeout(&mut policy, "timeout_ms", limits.timeout);
    limits.output = bytes(&mut policy, "max_output_bytes", limits.output);
    let env = shared_fields::env(&mut policy, "env_allowlist");
    sandbox::read_policy(sandbox_request, &mut policy);
    fields.close(policy);
    env
}
