//! `kind: node`: a script and its arguments, run by Node.js.

use super::cli::argv_or_text;
use super::python::interpreter;
use super::{Kind, Runnable};
use crate::tools::{ProcessSpec, ToolReader};
use toolyard_formats::doc::Fields;
use toolyard_runtimes::interpreter::NODE;
use toolyard_wire::child_io::Contract;

pub struct Node;

impl Kind for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    fn read(&self, fields: &mut Fields<'_>, reader: &ToolReader<'_>) -> Option<Runnable> {
        let arguments = argv_or_text(fields, "entry", "entry: [tools/example/script.mjs, argument, …]")?;
        let loader = reader.loader;
        let (program, mut warnings) = interpreter(NODE.find(&loader.host, &loader.root), "node");
        reader.script(fields, &arguments, &mut warnings)?;
        let contract = Contract::Document;
        reader.process(
            fields,
            ProcessSpec { program, arguments, extra_env: Vec::new(), contract, files: Vec::new(), warnings },
        )
    }
}
