//! `runtime: python-uv-script`: one Python file that declares its dependencies (PEP 723).

use super::{FileFormat, Kind, Runnable};
use crate::tools::{ProcessSpec, ToolReader};
use std::sync::Arc;
use toolyard_formats::doc::Fields;
use toolyard_runtimes::command::Program;
use toolyard_runtimes::interpreter::Interpreter;
use toolyard_runtimes::uv::{UvEnvironment, metadata};
use toolyard_wire::child_io::Contract;

/// Prepares the environment; the script is run by the interpreter in it.
const UV: Interpreter = Interpreter { label: "uv", names: &["uv"], self_path: &[] };

pub const KIND: Kind = Kind {
    name: "python-uv-script",
    format: FileFormat::Manifest,
    interpreter: Some(&UV),
    template: &[
        ("NAME/tool.json", include_str!("../../templates/uv.json")),
        ("NAME/NAME.py", include_str!("../../templates/uv.py")),
    ],
    read,
};

fn read(fields: &mut Fields<'_>, reader: &ToolReader<'_>) -> Option<Runnable> {
    let position = fields.position;
    let Some(mut entry) = fields.map("entry") else {
        fields.problem(
            position,
            "'entry' is missing",
            "write \"entry\": {\"script\": \"tools/example/script.py\"}",
        );
        return None;
    };
    let script = entry.required_text("script", "name the script, relative to the yard");
    let uv_args = entry.texts("uv_args").unwrap_or_default();
    let python = python_version(&mut entry, &uv_args);
    fields.close(entry);
    let arguments = vec![script?];
    let mut warnings = Vec::new();
    reader.script(fields, &arguments, &mut warnings)?;
    let loader = reader.loader;
    let text = std::fs::read_to_string(loader.root.join(arguments[0].0)).unwrap_or_default();
    let program = match metadata(&text) {
        Some(metadata) => {
            if loader.host.program("uv", &loader.root).is_none() {
                warnings.push("the program 'uv' is not installed on this machine".to_owned());
            }
            Program::Prepared(Arc::new(UvEnvironment::new(
                &loader.host,
                (&loader.root, &loader.state),
                arguments[0].0,
                &metadata,
                python?,
            )))
        }
        // Without declared dependencies there is nothing to prepare.
        None => {
            let (program, missing) = reader.python();
            warnings.extend(missing);
            program
        }
    };
    let (extra_env, contract) = (reader.python_path(), Contract::Line);
    reader
        .process(fields, ProcessSpec { program, arguments, extra_env, contract, files: Vec::new(), warnings })
}

/// The one uv option that means something for an environment prepared ahead: `--python VERSION`.
fn python_version(
    entry: &mut Fields<'_>,
    uv_args: &[(&str, toolyard_formats::doc::Position)],
) -> Option<Option<String>> {
    match uv_args {
        [] => Some(None),
        [("--python" | "-p", _), (version, _)] => Some(Some((*version).to_owned())),
        [(first, position), ..] => {
            let message = format!(
                "'uv_args' holds '{first}', which has no meaning for an environment prepared ahead of the call"
            );
            entry.problem(
                *position,
                message,
                "only [\"--python\", VERSION] is supported; declare dependencies in the script (PEP 723)",
            );
            None
        }
    }
}

impl ToolReader<'_> {
    /// The first argument is a script of the yard, fixed in the file.
    pub fn script(
        &self,
        fields: &mut Fields<'_>,
        arguments: &[(&str, toolyard_formats::doc::Position)],
        warnings: &mut Vec<String>,
    ) -> Option<()> {
        let Some((script, position)) = arguments.first() else {
            fields.problem(
                fields.position,
                "no script is named",
                "the first element is the script, relative to the yard",
            );
            return None;
        };
        self.require_literal(fields, script, *position, "the script")?;
        self.track(script);
        if !self.loader.root.join(script).is_file() {
            self.track_missing(script);
            warnings.push(format!("line {}: the script '{script}' is not there", position.line));
        }
        Some(())
    }
}
