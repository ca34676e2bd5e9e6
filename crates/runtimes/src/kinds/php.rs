//! `kind: php`: a script and its arguments (`php` or `entry`), run by PHP or by `phpBinary`.

use super::cli::argv_or_text;
use super::python::interpreter;
use super::{Kind, Plan};
use crate::interpreter::PHP;
use crate::yard::{Reading, Spawn};
use toolyard_wire::answer::Contract;
use toolyard_wire::doc::Fields;

pub struct Php;

impl Kind for Php {
    fn name(&self) -> &'static str {
        "php"
    }

    fn read(&self, fields: &mut Fields<'_>, reading: &Reading<'_>) -> Option<Plan> {
        let place = fields.place;
        let binary = fields.text("phpBinary");
        let (php, entry) = (fields.has("php"), fields.has("entry"));
        if php && entry {
            fields.problem(place, "'php' and 'entry' both name the script", "keep one of them");
            return None;
        }
        let arguments =
            argv_or_text(fields, if php { "php" } else { "entry" }, "php: tools/example/script.php")?;
        let loader = reading.loader;
        let found = match binary {
            Some(name) => PHP.named(&loader.host, &loader.root, name),
            None => PHP.find(&loader.host, &loader.root),
        };
        let (program, mut warnings) = interpreter(found, binary.unwrap_or("php"));
        reading.script(fields, &arguments, &mut warnings)?;
        let contract = Contract::Document;
        reading.spawn(
            fields,
            Spawn { program, arguments, set: Vec::new(), contract, files: Vec::new(), warnings },
        )
    }
}
