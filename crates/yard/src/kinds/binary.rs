//! `runtime: binary`: a native program that belongs to the yard; its bytes are part of the tool's digest.

use super::process::{command_and_args, fixed_command};
use super::{FileFormat, Kind, Runnable};
use crate::tools::ToolReader;
use toolyard_formats::doc::Fields;

pub const KIND: Kind = Kind {
    name: "binary",
    format: FileFormat::Manifest,
    interpreter: None,
    template: &[
        ("NAME/tool.json", include_str!("../../templates/binary.json")),
        ("NAME/NAME.c", include_str!("../../templates/binary.c")),
    ],
    read,
};

fn read(fields: &mut Fields<'_>, reader: &ToolReader<'_>) -> Option<Runnable> {
    let argv = command_and_args(fields)?;
    if let Some((program, position)) = argv.first()
        && !program.contains('/')
    {
        let message = format!("a binary is named by its path, not searched for; '{program}' has no '/'");
        fields.problem(
            *position,
            message,
            "write its path relative to the yard, or use \"runtime\": \"process\"",
        );
        return None;
    }
    fixed_command(fields, reader, argv)
}
