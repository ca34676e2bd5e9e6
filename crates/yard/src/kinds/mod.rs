//! The kinds of tools: one file each, whose `KIND` is everything the program knows about it, and one line in [`KINDS`].
//! Reading tool files, `new`, `doctor` and the documents follow from these rows.

mod binary;
mod cli;
mod http;
mod node;
mod php;
mod process;
mod python;
mod python_start;
mod ruby;
mod uv_script;

use crate::tools::written::FileUse;
use crate::tools::{ProcessSpec, ToolReader};
use std::path::PathBuf;
use toolyard_engine::Runner;
use toolyard_formats::doc::Fields;
use toolyard_protocol::{Permissions, Sandbox};
use toolyard_runtimes::command::Program;
use toolyard_runtimes::interpreter::Interpreter;
use toolyard_wire::child_io::Contract;

pub use crate::tools::walk::FileFormat;
pub use python::{is_function, is_own_text};
pub use python_start::{is_python, with_yard_last};

pub const KINDS: &[&Kind] = &[
    &cli::KIND,
    &python::KIND,
    &node::KIND,
    &php::KIND,
    &ruby::KIND,
    &http::KIND,
    &process::KIND,
    &binary::KIND,
    &uv_script::KIND,
];

/// One kind of tool.
pub struct Kind {
    /// `kind` in a toolpack, `runtime` in a manifest.
    pub name: &'static str,
    pub format: FileFormat,
    /// What runs its scripts; `doctor` shows where it is.
    pub interpreter: Option<&'static Interpreter>,
    /// What `toolyard new tool` creates: file names (NAME stands for the tool) and contents.
    pub template: &'static [(&'static str, &'static str)],
    /// Reads the fields that only this kind has. `None` when something is wrong; the problems are in the fields.
    pub read: fn(&mut Fields<'_>, &ToolReader<'_>) -> Option<Runnable>,
}

/// How a tool of a checked file runs.
pub struct Runnable {
    pub runner: Box<dyn Runner>,
    /// Files of the yard that the tool is made of, for its digest.
    pub files: Vec<PathBuf>,
    /// Why the tool cannot run on this machine as it is now.
    pub warnings: Vec<String>,
    /// What the owner should know, though nothing is wrong.
    pub notes: Vec<String>,
    pub sandbox: Sandbox,
    pub permissions: Permissions,
    /// Compared with that of the other tools.
    pub file_use: FileUse,
}

const INPUT_SCHEMA: (&str, &str) =
    ("NAME.input.schema.json", include_str!("../../templates/input.schema.json"));
const OUTPUT_SCHEMA: (&str, &str) =
    ("NAME.output.schema.json", include_str!("../../templates/output.schema.json"));

/// A script of the yard with its arguments in the field `name`, run by an interpreter.
fn script(
    fields: &mut Fields<'_>,
    reader: &ToolReader<'_>,
    name: &'static str,
    hint: &str,
    (program, mut warnings): (Program, Vec<String>),
) -> Option<Runnable> {
    let arguments = cli::argv_or_text(fields, name, hint)?;
    reader.script(fields, &arguments, &mut warnings)?;
    let contract = Contract::Document;
    reader.process(fields, ProcessSpec { program, arguments, contract, files: Vec::new(), warnings })
}

/// A missing interpreter is a warning: the tool loads, fails with a clear error when called, and works once it is
/// installed.
fn program(found: Option<PathBuf>, name: &str) -> (Program, Vec<String>) {
    match found {
        Some(path) => (Program::Resolved { path, name: name.to_owned() }, Vec::new()),
        None => (
            Program::Named(name.to_owned()),
            vec![format!("the interpreter '{name}' is not installed on this machine")],
        ),
    }
}
