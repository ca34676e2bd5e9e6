//! `tool.json`: the manifest format of seed 000.

use super::common::{self, bytes, timeout, usual_timeout};
use super::reading::{Checked, Origin, Parts, Reading};
use super::sandbox::Needs;
use crate::kinds;
use toolyard_protocol::Limits;
use toolyard_wire::doc::{Fields, Node, Problem};

const LATER: &[(&str, &str)] = &[("warm", "workers that stay alive between calls are not there yet")];

pub fn read(node: &Node, origin: Origin<'_>) -> Result<Checked, Vec<Problem>> {
    let mut fields = Fields::open(node, "").map_err(|problem| vec![problem])?;
    let id = fields.required_text("id", "give the tool a name, for example \"id\": \"word_count\"");
    let kind = Reading::kind(&mut fields, "runtime", kinds::MANIFEST);
    let mut common = common::read(&mut fields, "name", Needs::manifest());
    let mut limits = origin.loader.defaults.manifest;
    limits.timeout = usual_timeout(common.timing, limits.timeout);
    common.env = policy(&mut fields, &mut limits, &mut common.needs);
    if let Some(mut metadata) = fields.map("metadata") {
        let categories = metadata.texts("categories").unwrap_or_default();
        common.about.categories = categories.into_iter().map(|(text, _)| text.to_owned()).collect();
        fields.close(metadata);
    }
    let reading = Reading::new(origin, common);
    let plan = kind.and_then(|kind| kind.read(&mut fields, &reading));
    let schemas = reading.schemas(&mut fields, ["parameters", "returns"]);
    let cache_key = reading.cache_key(&mut fields);
    let id = id.map(|(id, place)| (id.to_owned(), place));
    reading.finish(fields, LATER, Parts { id, kind, plan, limits, schemas, cache_key })
}

/// Seed 000's `policy`; gives the variables to pass on.
fn policy(fields: &mut Fields<'_>, limits: &mut Limits, needs: &mut Needs) -> Vec<String> {
    let Some(mut policy) = fields.map("policy") else { return Vec::new() };
    limits.timeout = timeout(&mut policy, "timeout_ms", limits.timeout);
    limits.output = bytes(&mut policy, "max_output_bytes", limits.output);
    let env = common::env(&mut policy, "env_allowlist");
    needs.read_policy(&mut policy);
    fields.close(policy);
    env
}
