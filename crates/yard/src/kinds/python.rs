//! `kind: python`: a function (`pkg.mod:func`), a script, or an argv list.

use super::cli::argv_or_text;
use super::{FileFormat, INPUT_SCHEMA, Kind, OUTPUT_SCHEMA, Runnable, program};
use crate::tools::{ProcessSpec, ToolReader};
use std::path::{Path, PathBuf};
use toolyard_formats::doc::{Fields, Position};
use toolyard_runtimes::command::Program;
use toolyard_runtimes::interpreter::Interpreter;
use toolyard_wire::child_io::Contract;

const PYTHON: Interpreter = Interpreter {
    label: "python",
    names: &["python3", "python"],
    self_path: &["-c", "import sys; print(sys.executable)"],
};

/// Imports the function and speaks the tool contract for it.
const SHIM: &str = include_str!("python_call.py");
/// The same for a function that talks with its caller, through the module `toolyard_dialog`.
const DIALOG_SHIM: &str = concat!(include_str!("python_dialog.py"), include_str!("python_call.py"));
const MAX_FILES: usize = 2000;

pub const KIND: Kind = Kind {
    name: "python",
    format: FileFormat::Toolpack,
    interpreter: Some(&PYTHON),
    template: &[
        ("NAME.tool.yaml", include_str!("../../templates/python.tool.yaml")),
        ("NAME.py", include_str!("../../templates/python.py")),
        INPUT_SCHEMA,
        OUTPUT_SCHEMA,
    ],
    read,
};

fn read(fields: &mut Fields<'_>, reader: &ToolReader<'_>) -> Option<Runnable> {
    let entry = argv_or_text(fields, "entry", "entry: pkg.mod:func, a script, or [program, argument, …]")?;
    match entry.as_slice() {
        [(text, position)] if is_function(text) => function(fields, reader, text, *position),
        [(text, position)] => {
            let mut warnings = Vec::new();
            reader.script(fields, &[(*text, *position)], &mut warnings)?;
            let mut runnable = with_interpreter(fields, reader, entry, Vec::new())?;
            runnable.warnings.extend(warnings);
            Some(runnable)
        }
        [(program, _), rest @ ..] if PYTHON.names.contains(program) => {
            with_interpreter(fields, reader, rest.to_vec(), Vec::new())
        }
        argv => {
            let (program, warnings) = reader.named_program(fields, argv)?;
            let (arguments, contract) = (argv[1..].to_vec(), Contract::Document);
            reader.process(fields, ProcessSpec { program, arguments, contract, files: Vec::new(), warnings })
        }
    }
}

/// Whether the text is one that this program puts into a command line.
pub fn is_own_text(text: &str) -> bool {
    text == SHIM || text == DIALOG_SHIM
}

/// `pkg.mod:func`, both parts Python names.
pub fn is_function(text: &str) -> bool {
    let name = |text: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_alphanumeric() || c == '_')
            && !text.starts_with(|c: char| c.is_ascii_digit())
    };
    text.split_once(':')
        .is_some_and(|(module, function)| module.split('.').all(name) && function.split('.').all(name))
}

fn function(
    fields: &mut Fields<'_>,
    reader: &ToolReader<'_>,
    text: &str,
    position: Position,
) -> Option<Runnable> {
    let (module, _) = text.split_once(':')?;
    let root = &reader.loader.root;
    let path = PathBuf::from(module.replace('.', "/"));
    let file = [path.with_extension("py"), path.join("__init__.py")]
        .into_iter()
        .find(|file| root.join(file).is_file());
    let Some(file) = file else {
        [path.with_extension("py"), path.join("__init__.py")]
            .iter()
            .for_each(|file| reader.track_missing(file));
        let message = format!(
            "the module '{module}' is not in the yard: there is no {}",
            path.with_extension("py").display()
        );
        fields.problem(
            position,
            message,
            "module paths start at the yard's root, for example tools.example.markdown:run",
        );
        return None;
    };
    // What a module imports from beside it decides what it does.
    let files = folder_files(reader, file.parent().unwrap_or(Path::new("")));
    let shim = if reader.shared.behavior.dialog { DIALOG_SHIM } else { SHIM };
    let arguments = vec![("-B", position), ("-c", position), (shim, position), (text, position)];
    with_interpreter(fields, reader, arguments, files)
}

fn with_interpreter(
    fields: &mut Fields<'_>,
    reader: &ToolReader<'_>,
    arguments: Vec<(&str, Position)>,
    files: Vec<PathBuf>,
) -> Option<Runnable> {
    let (program, warnings) = reader.python();
    let contract = Contract::Document;
    reader.process(fields, ProcessSpec { program, arguments, contract, files, warnings })
}

impl ToolReader<'_> {
    /// The yard's own virtual environment if it has one, else the machine's Python.
    pub fn python(&self) -> (Program, Vec<String>) {
        let own = self.loader.root.join(".venv/bin/python");
        let found = if own.is_file() { Some(own) } else { self.machine_python() };
        program(found, "python3")
    }

    pub fn machine_python(&self) -> Option<PathBuf> {
        PYTHON.find(self.loader.lookup())
    }
}

/// Every file below the folder, within bounds, caches left out; paths relative to the root.
fn folder_files(reader: &ToolReader<'_>, folder: &Path) -> Vec<PathBuf> {
    let root = &reader.loader.root;
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // A file that comes or goes changes what the module may import.
        reader.track(&folder);
        let mut entries: Vec<_> =
            std::fs::read_dir(root.join(&folder)).into_iter().flatten().flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let hidden = name.as_encoded_bytes().starts_with(b".");
            if hidden || name == "__pycache__" || name == "node_modules" || files.len() >= MAX_FILES {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(folder.join(name)),
                Ok(kind) if kind.is_file() => files.push(folder.join(name)),
                _ => {}
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_from_scripts() {
        for yes in ["tools.example.markdown:run", "mod:func", "a_b.c1:d.e"] {
            assert!(is_function(yes), "{yes}");
        }
        for no in ["tools/example/x.py", "mod", "mod:", ":func", "a b:c", "1a:b", "https://x:y"] {
            assert!(!is_function(no), "{no}");
        }
    }
}
