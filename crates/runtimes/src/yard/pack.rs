//! `*.tool.yaml`: the toolpack format of seed 002.

use super::reading::{Checked, Parts, Reading, bytes, timeout};
use crate::kinds;
use toolyard_wire::doc::{Fields, Node, Problem};

/// Known fields that have no effect yet; they are refused, never ignored.
const LATER: &[(&str, &str)] = &[];

pub fn read(node: &Node, reading: &Reading<'_>) -> Result<Checked, Vec<Problem>> {
    let mut fields = Fields::open(node, "").map_err(|problem| vec![problem])?;
    let id = fields.required_text("id", "give the tool a name, for example id: word_count");
    let kind = reading.kind(&mut fields, "kind", kinds::PACK);
    let common = reading.common(&mut fields, "title");
    let mut limits = reading.loader.defaults.pack;
    limits.timeout = timeout(&mut fields, "timeoutMs", limits.timeout);
    if let Some(mut map) = fields.map("limits") {
        limits.input = bytes(&mut map, "input", limits.input);
        limits.output = bytes(&mut map, "output", limits.output);
        fields.close(map);
    }
    let plan = kind.and_then(|kind| kind.read(&mut fields, reading));
    let id = id.map(|(id, place)| (id.to_owned(), place));
    reading.finish(fields, LATER, Parts { id, kind, plan, common, limits })
}
