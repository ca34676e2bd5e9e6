//! `runtime: python-uv-script`: one Python file that declares its dependencies (PEP 723).

use super::{Kind, Plan};
use crate::command::Program;
use crate::uv::{Environment, metadata};
use crate::yard::{Reading, Spawn};
use std::sync::Arc;
use toolyard_wire::answer::Contract;
use toolyard_wire::doc::Fields;

pub struct UvScript;

impl Kind for UvScript {
    fn name(&self) -> &'static str {
        "python-uv-script"
    }

    fn read(&self, fields: &mut Fields<'_>, reading: &Reading<'_>) -> Option<Plan> {
        let place = fields.place;
        let Some(mut entry) = fields.map("entry") else {
            fields.problem(
                place,
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
        reading.script(fields, &arguments, &mut warnings)?;
        let loader = reading.loader;
        let text = std::fs::read_to_string(loader.root.join(arguments[0].0)).unwrap_or_default();
        let program = match metadata(&text) {
            Some(metadata) => {
                if loader.host.program("uv", &loader.root).is_none() {
                    warnings.push("the program 'uv' is not installed on this machine".to_owned());
                }
                Program::Prepared(Arc::new(Environment::new(loader, arguments[0].0, &metadata, python?)))
            }
            // Without declared dependencies there is nothing to prepare.
            None => {
                let (program, missing) = reading.python();
                warnings.extend(missing);
                program
            }
        };
        let (set, contract) = (reading.python_path(), Contract::Line);
        reading.spawn(fields, Spawn { program, arguments, set, contract, files: Vec::new(), warnings })
    }
}

/// The one uv option that means something for an environment prepared ahead: `--python VERSION`.
fn python_version(
    entry: &mut Fields<'_>,
    uv_args: &[(&str, toolyard_wire::doc::Place)],
) -> Option<Option<String>> {
    match uv_args {
        [] => Some(None),
        [("--python" | "-p", _), (version, _)] => Some(Some((*version).to_owned())),
        [(first, place), ..] => {
            let message = format!(
                "'uv_args' holds '{first}', which has no meaning for an environment prepared ahead of the call"
            );
            entry.problem(
                *place,
                message,
                "only [\"--python\", VERSION] is supported; declare dependencies in the script (PEP 723)",
            );
            None
        }
    }
}

impl Reading<'_> {
    /// The first argument is a script of the yard, fixed in the file.
    pub fn script(
        &self,
        fields: &mut Fields<'_>,
        arguments: &[(&str, toolyard_wire::doc::Place)],
        warnings: &mut Vec<String>,
    ) -> Option<()> {
        let Some((script, place)) = arguments.first() else {
            fields.problem(
                fields.place,
                "no script is named",
                "the first element is the script, relative to the yard",
            );
            return None;
        };
        self.refuse_markup(fields, script, *place, "the script")?;
        self.note(script);
        if !self.loader.root.join(script).is_file() {
            self.missing(script);
            warnings.push(format!("line {}: the script '{script}' is not there", place.line));
        }
        Some(())
    }
}
