//! `runtime: process`: any executable with fixed arguments, found on the search path or in the yard.

use super::{Kind, Plan};
use crate::yard::{Reading, Spawn};
use toolyard_wire::answer::Contract;
use toolyard_wire::doc::{Fields, Place};

pub struct Process;

impl Kind for Process {
    fn name(&self) -> &'static str {
        "process"
    }

    fn read(&self, fields: &mut Fields<'_>, reading: &Reading<'_>) -> Option<Plan> {
        let argv = command_and_args(fields)?;
        fixed_command(fields, reading, argv)
    }
}

/// Runs the command of a manifest.
pub fn fixed_command(
    fields: &mut Fields<'_>,
    reading: &Reading<'_>,
    argv: Vec<(&str, Place)>,
) -> Option<Plan> {
    let (program, warnings) = reading.named_program(fields, &argv)?;
    let (arguments, contract) = (argv[1..].to_vec(), Contract::Line);
    reading
        .spawn(fields, Spawn { program, arguments, set: Vec::new(), contract, files: Vec::new(), warnings })
}

/// `entry: {command, args}`, as both seed 000 runtimes write it.
pub fn command_and_args<'n>(fields: &mut Fields<'n>) -> Option<Vec<(&'n str, Place)>> {
    let Some(mut entry) = fields.map("entry") else {
        if fields.problems.is_empty() {
            fields.problem(
                fields.place,
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
