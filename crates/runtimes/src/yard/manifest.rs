//! `tool.json`: the manifest format of seed 000.

use super::reading::{Checked, Parts, Reading, bytes, timeout};
use crate::kinds;
use toolyard_wire::doc::{Fields, Node, Problem};

const LATER: &[(&str, &str)] = &[];

pub fn read(node: &Node, reading: &Reading<'_>) -> Result<Checked, Vec<Problem>> {
    let mut fields = Fields::open(node, "").map_err(|problem| vec![problem])?;
    let id = fields.required_text("id", "give the tool a name, for example \"id\": \"word_count\"");
    let kind = reading.kind(&mut fields, "runtime", kinds::MANIFEST);
    let common = reading.common(&mut fields, "name");
    let mut limits = reading.loader.defaults.manifest;
    if let Some(mut policy) = fields.map("policy") {
        limits.timeout = timeout(&mut policy, "timeout_ms", limits.timeout);
        limits.output = bytes(&mut policy, "max_output_bytes", limits.output);
        fields.close(policy);
    }
    let plan = kind.and_then(|kind| kind.read(&mut fields, reading));
    let id = id.map(|(id, place)| (id.to_owned(), place));
    reading.finish(fields, LATER, Parts { id, kind, plan, common, limits })
}
