//! `kind: cli`: any program, named by an argv list or by one text that is never split.

use super::{Kind, Plan};
use crate::yard::{Reading, Spawn};
use toolyard_wire::answer::Contract;
use toolyard_wire::doc::{Fields, Place, Value};

pub struct Cli;

impl Kind for Cli {
    fn name(&self) -> &'static str {
        "cli"
    }

    fn read(&self, fields: &mut Fields<'_>, reading: &Reading<'_>) -> Option<Plan> {
        let argv = argv_or_text(fields, "entry", "name the program: entry: [program, argument, …]")?;
        let (program, warnings) = reading.named_program(fields, &argv)?;
        let (arguments, contract) = (argv[1..].to_vec(), Contract::Document);
        reading.spawn(
            fields,
            Spawn { program, arguments, set: Vec::new(), contract, files: Vec::new(), warnings },
        )
    }
}

/// A list of texts, or one text that stays one.
pub fn argv_or_text<'n>(
    fields: &mut Fields<'n>,
    name: &'static str,
    hint: &str,
) -> Option<Vec<(&'n str, Place)>> {
    let Some(node) = fields.take(name) else {
        fields.problem(fields.place, format!("'{name}' is missing"), hint);
        return None;
    };
    match &node.value {
        Value::Text(text) => Some(vec![(text.as_str(), node.place)]),
        Value::List(_) => fields.texts_of(node, name),
        _ => fields.wrong(node, name, "a text or a list of texts"),
    }
}
