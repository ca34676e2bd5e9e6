//! `kind: php`: a script and its arguments (`php` or `entry`), run by PHP or by `phpBinary`.

use super::{FileFormat, INPUT_SCHEMA, Kind, OUTPUT_SCHEMA, Runnable, program, script};
use crate::tools::ToolReader;
use toolyard_formats::doc::Fields;
use toolyard_runtimes::interpreter::Interpreter;

const PHP: Interpreter =
    Interpreter { label: "php", names: &["php"], self_path: &["-r", "echo PHP_BINARY;"] };

pub const KIND: Kind = Kind {
    name: "php",
    format: FileFormat::Toolpack,
    interpreter: Some(&PHP),
    template: &[
        ("NAME.tool.yaml", include_str!("../../templates/php.tool.yaml")),
        ("NAME.php", include_str!("../../templates/php.php")),
        INPUT_SCHEMA,
        OUTPUT_SCHEMA,
    ],
    read,
};

fn read(fields: &mut Fields<'_>, reader: &ToolReader<'_>) -> Option<Runnable> {
    let position = fields.position;
    let binary = fields.text("phpBinary");
    let (php, entry) = (fields.has("php"), fields.has("entry"));
    if php && entry {
        fields.problem(position, "'php' and 'entry' both name the script", "keep one of them");
        return None;
    }
    let lookup = reader.loader.lookup();
    let found = match binary {
        Some(name) => PHP.find_named(lookup, name),
        None => PHP.find(lookup),
    };
    let field = if php { "php" } else { "entry" };
    let program = program(found, binary.unwrap_or("php"));
    script(fields, reader, field, "php: tools/example/script.php", program)
}
