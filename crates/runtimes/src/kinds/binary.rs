//! `runtime: binary`: a native program that belongs to the yard; its bytes are part of the tool's digest.

use super::process::{command_and_args, fixed_command};
use super::{Kind, Plan};
use crate::yard::Reading;
use toolyard_wire::doc::Fields;

pub struct Binary;

impl Kind for Binary {
    fn name(&self) -> &'static str {
        "binary"
    }

    fn read(&self, fields: &mut Fields<'_>, reading: &Reading<'_>) -> Option<Plan> {
        let argv = command_and_args(fields)?;
        if let Some((program, place)) = argv.first()
            && !program.contains('/')
        {
            let message = format!("a binary is named by its path, not searched for; '{program}' has no '/'");
            fields.problem(
                *place,
                message,
                "write its path relative to the yard, or use \"runtime\": \"process\"",
            );
            return None;
        }
        fixed_command(fields, reading, argv)
    }
}
