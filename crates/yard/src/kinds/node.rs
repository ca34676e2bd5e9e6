//! `kind: node`: a script and its arguments, run by Node.js.

use super::{FileFormat, INPUT_SCHEMA, Kind, OUTPUT_SCHEMA, program, script};
use toolyard_runtimes::interpreter::Interpreter;

const NODE: Interpreter =
    Interpreter { label: "node", names: &["node"], self_path: &["-p", "process.execPath"] };

pub const KIND: Kind = Kind {
    name: "node",
    format: FileFormat::Toolpack,
    interpreter: Some(&NODE),
    template: &[
        ("NAME.tool.yaml", include_str!("../../templates/node.tool.yaml")),
        ("NAME.mjs", include_str!("../../templates/node.mjs")),
        INPUT_SCHEMA,
        OUTPUT_SCHEMA,
    ],
    read: |fields, reader| {
        let found = NODE.find(reader.loader.lookup());
        let hint = "entry: [tools/example/script.mjs, argument, …]";
        script(fields, reader, "entry", hint, program(found, "node"))
    },
};
