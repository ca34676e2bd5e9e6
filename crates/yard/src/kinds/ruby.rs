//! `kind: ruby`: a script and its arguments, run by Ruby.

use super::{FileFormat, INPUT_SCHEMA, Kind, OUTPUT_SCHEMA, program, script};
use toolyard_runtimes::interpreter::Interpreter;

const RUBY: Interpreter =
    Interpreter { label: "ruby", names: &["ruby"], self_path: &["-e", "print RbConfig.ruby"] };

pub const KIND: Kind = Kind {
    name: "ruby",
    format: FileFormat::Toolpack,
    interpreter: Some(&RUBY),
    template: &[
        ("NAME.tool.yaml", include_str!("../../templates/ruby.tool.yaml")),
        ("NAME.rb", include_str!("../../templates/ruby.rb")),
        INPUT_SCHEMA,
        OUTPUT_SCHEMA,
    ],
    read: |fields, reader| {
        let found = RUBY.find(reader.loader.lookup());
        let hint = "entry: [tools/example/script.rb, argument, …]";
        script(fields, reader, "entry", hint, program(found, "ruby"))
    },
};
