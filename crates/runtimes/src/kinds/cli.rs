//! `kind: cli`: any program, named by an argv list or by one text that is never split.

use super::{Kind, Plan};
use crate::yard::Reading;
use toolyard_wire::answer::Contract;
use toolyard_wire::doc::{Fields, Value};

pub struct Cli;

impl Kind for Cli {
    fn name(&self) -> &'static str {
        "cli"
    }

    fn read(&self, fields: &mut Fields<'_>, reading: &Reading<'_>) -> Option<Plan> {
        let hint = "name the program: entry: [program, argument, …]";
        let Some(node) = fields.take("entry") else {
            fields.problem(fields.place, "'entry' is missing", hint);
            return None;
        };
        let argv = match &node.value {
            Value::Text(program) => vec![(program.as_str(), node.place)],
            Value::List(_) => fields.texts_of(node, "entry")?,
            _ => return fields.wrong(node, "entry", "a text or a list of texts"),
        };
        reading.command(fields, argv, Contract::Document)
    }
}
