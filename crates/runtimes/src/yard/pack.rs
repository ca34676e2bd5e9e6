//! `*.tool.yaml`: the toolpack format of seed 002.

use super::common::{self, bytes, timeout, usual_timeout};
use super::reading::{Checked, Origin, Parts, Reading};
use super::sandbox::Needs;
use crate::kinds;
use toolyard_wire::doc::{Fields, Node, Problem};

/// Known fields that would have no effect in this version; they are refused, never ignored.
const LATER: &[(&str, &str)] = &[
    ("warm", "workers that stay alive between calls are not there yet"),
    ("elevate", "elevated calls are not there yet"),
    ("spill", "results over the output limit cannot be stored yet"),
    ("errors", "it belongs to specification pages, which are not there yet"),
    ("security", "it belongs to specification pages, which are not there yet"),
];

pub fn read(node: &Node, origin: Origin<'_>) -> Result<Checked, Vec<Problem>> {
    let mut fields = Fields::open(node, "").map_err(|problem| vec![problem])?;
    let id = fields.required_text("id", "give the tool a name, for example id: word_count");
    let kind = Reading::kind(&mut fields, "kind", kinds::PACK);
    let mut common = common::read(&mut fields, "title", Needs::pack());
    common.env = common::env(&mut fields, "env");
    let mut limits = origin.loader.defaults.pack;
    limits.timeout = timeout(&mut fields, "timeoutMs", usual_timeout(common.timing, limits.timeout));
    if let Some(mut map) = fields.map("limits") {
        limits.input = bytes(&mut map, "input", limits.input);
        limits.output = bytes(&mut map, "output", limits.output);
        fields.close(map);
    }
    let reading = Reading::new(origin, common);
    let plan = kind.and_then(|kind| kind.read(&mut fields, &reading));
    let schemas = reading.schemas(&mut fields, ["input", "output"]);
    let cache_key = reading.cache_key(&mut fields);
    let id = id.map(|(id, place)| (id.to_owned(), place));
    reading.finish(fields, LATER, Parts { id, kind, plan, limits, schemas, cache_key })
}
