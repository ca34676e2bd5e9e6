//! `kind: cli`: any program, named by an argv list or by one text that is never split.

use super::{FileFormat, INPUT_SCHEMA, Kind, OUTPUT_SCHEMA, Runnable};
use crate::tools::{ProcessSpec, ToolReader};
use toolyard_formats::doc::{Fields, Position, Value};
use toolyard_wire::child_io::Contract;

pub const KIND: Kind = Kind {
    name: "cli",
    format: FileFormat::Toolpack,
    interpreter: None,
    template: &[
        ("NAME.tool.yaml", include_str!("../../templates/cli.tool.yaml")),
        ("NAME.sh", include_str!("../../templates/cli.sh")),
        INPUT_SCHEMA,
        OUTPUT_SCHEMA,
    ],
    read,
};

fn read(fields: &mut Fields<'_>, reader: &ToolReader<'_>) -> Option<Runnable> {
    let argv = argv_or_text(fields, "entry", "name the program: entry: [program, argument, …]")?;
    let (program, warnings) = reader.named_program(fields, &argv)?;
    let (arguments, contract) = (argv[1..].to_vec(), Contract::Document);
    reader.process(fields, ProcessSpec { program, arguments, contract, files: Vec::new(), warnings })
}

/// A list of texts, or one text that stays one.
pub fn argv_or_text<'n>(
    fields: &mut Fields<'n>,
    name: &'static str,
    hint: &str,
) -> Option<Vec<(&'n str, Position)>> {
    let Some(node) = fields.take(name) else {
        fields.problem(fields.position, format!("'{name}' is missing"), hint);
        return None;
    };
    match &node.value {
        Value::Text(text) => Some(vec![(text.as_str(), node.position)]),
        Value::List(_) => fields.texts_of(node, name),
        _ => fields.wrong(node, name, "a string or a list of strings"),
    }
}
