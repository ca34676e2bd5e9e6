//! `kind: php`: a script and its arguments (`php` or `entry`), run by PHP or by `phpBinary`.

use super::cli::argv_or_text;
use super::python::interpreter;
use super::{Kind, Runnable};
use crate::tools::{ProcessSpec, ToolReader};
use toolyard_formats::doc::Fields;
use toolyard_runtimes::interpreter::PHP;
use toolyard_wire::child_io::Contract;

pub struct Php;

impl Kind for Php {
    fn name(&self) -> &'static str {
        "php"
    }

    fn read(&self, fields: &mut Fields<'_>, reader: &ToolReader<'_>) -> Option<Runnable> {
        let position = fields.position;
        let binary = fields.text("phpBinary");
        let (php, entry) = (fields.has("php"), fields.has("entry"));
        if php && entry {
            fields.problem(position, "'php' and 'entry' both name the script", "keep one of them");
            return None;
        }
        let arguments =
            argv_or_text(fields, if php { "php" } else { "entry" }, "php: tools/example/script.php")?;
        let loader = reader.loader;
        let found = match binary {
            Some(name) => PHP.find_named(&loader.host, &loader.root, name),
            None => PHP.find(&loader.host, &loader.root),
        };
        let (program, mut warnings) = interpreter(found, binary.unwrap_or("php"));
        reader.script(fields, &arguments, &mut warnings)?;
        let contract = Contract::Document;
        reader.process(
            fields,
            ProcessSpec { program, arguments, extra_env: Vec::new(), contract, files: Vec::new(), warnings },
        )
    }
}
