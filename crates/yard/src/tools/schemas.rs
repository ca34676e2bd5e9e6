//! A tool's schemas: inline or in files beside it, made self-contained and compiled.

use super::load_cache::InputRecorder;
use std::path::{Path, PathBuf};
use toolyard_formats::doc::{self, DocumentFormat, Node, Problem, Value};
use toolyard_formats::schema::{FileError, Schema, bundle};
use toolyard_protocol::{Check, Payload};

/// One compiled schema, its self-contained text and the files it came from.
pub struct Compiled {
    pub check: Box<dyn Check>,
    pub text: Payload,
    pub files: Vec<PathBuf>,
}

/// `source` is the tool file, relative to `root`. Schema files are recorded, missing ones too.
pub fn compile(
    node: &Node,
    root: &Path,
    source: &str,
    recorder: &InputRecorder,
) -> Result<Compiled, Problem> {
    if !matches!(node.value, Value::Map(_)) {
        return Err(Problem::new(node.position, format!("a schema must be a map, not {}", node.kind()))
            .hint("write the schema here, or $ref: ./file.schema.json"));
    }
    let bundled = bundle(node, source, &mut |path| {
        recorder.add(root.join(path));
        let node = read(root, path);
        if node.is_err() && !root.join(path).exists() {
            recorder.missing(root.join(path));
        }
        node
    })?;
    let schema = Schema::compile(&bundled.json).map_err(|what| Problem::new(node.position, what))?;
    Ok(Compiled {
        check: Box::new(schema),
        text: Payload::json(bundled.json),
        files: bundled.files.into_iter().map(PathBuf::from).collect(),
    })
}

/// Paths are already free of `..`; a symbolic link could still point outside the yard.
fn read(root: &Path, path: &str) -> Result<Node, FileError> {
    let full = std::fs::canonicalize(root.join(path))
        .map_err(|error| FileError(format!("cannot be read: {error}")))?;
    if !full.starts_with(root) {
        return Err(FileError("lies outside the yard".to_owned()));
    }
    let bytes = super::read_bounded(&full).map_err(FileError)?;
    let yaml = path.ends_with(".yaml") || path.ends_with(".yml");
    let format = if yaml { DocumentFormat::Yaml } else { DocumentFormat::Json };
    doc::read(format, &bytes)
        .map_err(|problem| FileError(format!("is broken at {}: {}", problem.position, problem.message)))
}
