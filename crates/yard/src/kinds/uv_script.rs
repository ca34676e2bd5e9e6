//! `runtime: python-uv-script`: one Python file that declares its dependencies (PEP 723).

use super::{FileFormat, Kind, Runnable};
use crate::tools::{ProcessSpec, ToolReader};
use std::path::Path;
use std::sync::Arc;
use toolyard_formats::doc::Fields;
use toolyard_runtimes::beneath::{self, LinkPolicy};
use toolyard_runtimes::command::Program;
use toolyard_runtimes::interpreter::Interpreter;
use toolyard_runtimes::uv::{UvEnvironment, UvInputs, metadata};
use toolyard_sandbox::SandboxLevel;
use toolyard_wire::child_io::Contract;

/// Prepares the environment; the script is run by the interpreter in it.
const UV: Interpreter = Interpreter { label: "uv", names: &["uv"], self_path: &[] };

const MAX_SCRIPT: usize = 16 << 20;

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
    let build = prepare(fields);
    let arguments = vec![script?];
    let mut warnings = Vec::new();
    reader.script(fields, &arguments, &mut warnings)?;
    let loader = reader.loader;
    let script = beneath::open_regular(&loader.root, Path::new(arguments[0].0), LinkPolicy::Follow);
    let text = script.and_then(|script| beneath::read_all(script, MAX_SCRIPT));
    let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.map_err(|error| warnings.push(format!("the script '{}' {error}", arguments[0].0)));
    let program = match metadata(&text.unwrap_or_default()) {
        Some(metadata) => {
            if loader.host.program("uv", &loader.root).is_none() {
                warnings.push("the program 'uv' is not installed on this machine".to_owned());
            }
            let settings = loader.settings();
            let inputs = UvInputs {
                script: arguments[0].0.to_owned(),
                metadata,
                python: python?,
                build,
                network: settings.prepare_network,
            };
            let machine = (&loader.host, &loader.launcher, &loader.places);
            let level = reader.prepare_level(fields)?;
            Program::Prepared(Arc::new(UvEnvironment::new(machine, inputs, reader.machine_python(), level)))
        }
        // Without declared dependencies there is nothing to prepare.
        None => {
            let (program, missing) = reader.python();
            warnings.extend(missing);
            program
        }
    };
    let contract = Contract::Line;
    reader.process(fields, ProcessSpec { program, arguments, contract, files: Vec::new(), warnings })
}

/// `prepare: {build: true}`: packages without a wheel may be built, which runs their code.
fn prepare(fields: &mut Fields<'_>) -> bool {
    let Some(mut map) = fields.map("prepare") else { return false };
    let build = map.bool("build").unwrap_or(false);
    fields.close(map);
    build
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
        let full = self.loader.root.join(script);
        if !full.exists() {
            self.track_missing(script);
            warnings.push(format!("line {}: the script '{script}' is not there", position.line));
        } else if !full.is_file() {
            warnings.push(format!("line {}: the script '{script}' is not a regular file", position.line));
        }
        Some(())
    }

    /// The sandbox in which the environment is prepared, whatever the tool itself asks for.
    fn prepare_level(&self, fields: &mut Fields<'_>) -> Option<SandboxLevel> {
        let policy = self.loader.settings().sandbox_policy;
        let level = self.loader.launcher.sandbox_level().min(policy.level);
        if level >= policy.require {
            return Some(level);
        }
        let what = format!(
            "the environment is prepared in a sandbox; the yard requires the level {}, but it is {level}",
            policy.require
        );
        let hint = format!("write [sandbox] require = \"{level}\" in toolyard.toml to do without");
        fields.problem(fields.position, what, &hint);
        None
    }
}
