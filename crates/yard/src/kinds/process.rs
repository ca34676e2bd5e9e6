//! `runtime: process`: any executable with fixed arguments, found on the search path or in the yard.

use super::{FileFormat, Kind, Runnable};
use crate::tools::{ProcessSpec, ToolReader};
use toolyard_formats::doc::{Fields, Position};
use toolyard_wire::child_io::Contract;

pub const KIND: Kind = Kind {
    name: "process",
    format: FileFormat::Manifest,
    interpreter: None,
    template: &[
        ("NAME/tool.json", include_str!("../../templates/process.json")),
        ("NAME/NAME.py", include_str!("../../templates/line.py")),
    ],
    read,
};

fn read(fields: &mut Fields<'_>, reader: &ToolReader<'_>) -> Option<Runnable> {
    let argv = command_and_args(fields)?;
    fixed_command(fields, reader, argv)
}

/// Runs the command of a manifest.
pub fn fixed_command(
    fields: &mut Fields<'_>,
    reader: &ToolReader<'_>,
    argv: Vec<(&str, Position)>,
) -> Option<Runnable> {
    let (program, warnings) = reader.named_program(fields, &argv)?;
    let (arguments, contract) = (argv[1..].to_vec(), Contract::Line);
    reader.process(fields, ProcessSpec { program, arguments, contract, files: Vec::new(), warnings })
}

/// `entry: {command, args}`, as both manifest runtimes write it.
pub fn command_and_args<'n>(fields: &mut Fields<'n>) -> Option<Vec<(&'n str, Position)>> {
    let Some(mut entry) = fields.map("entry") else {
        if fields.problems.is_empty() {
            fields.problem(
                fields.position,
                "'entry' is missing",
                "write \"entry\": {\"command\": \"program\", \"args\": []}",
            );
        }
        return None;
    };
    let command = entry.required_text("command", "name the program to run");
    let args = entry.texts("args").unwrap_or_default();
    fields.close(entry);
    command.map(|command| std::iter::once(command).chain(args).collect())
}
