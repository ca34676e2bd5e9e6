//! `kind: node`: a script and its arguments, run by Node.js.

use super::cli::argv_or_text;
use super::python::interpreter;
use super::{Kind, Plan};
use crate::interpreter::NODE;
use crate::yard::{Reading, Spawn};
use toolyard_wire::answer::Contract;
use toolyard_wire::doc::Fields;

pub struct Node;

impl Kind for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    fn read(&self, fields: &mut Fields<'_>, reading: &Reading<'_>) -> Option<Plan> {
        let arguments = argv_or_text(fields, "entry", "entry: [tools/example/script.mjs, argument, …]")?;
        let loader = reading.loader;
        let (program, mut warnings) = interpreter(NODE.find(&loader.host, &loader.root), "node");
        reading.script(fields, &arguments, &mut warnings)?;
        let contract = Contract::Document;
        reading.spawn(
            fields,
            Spawn { program, arguments, set: Vec::new(), contract, files: Vec::new(), warnings },
        )
    }
}
