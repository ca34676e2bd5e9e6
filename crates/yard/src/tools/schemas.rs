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
        let bytes = super::read_bounded(root, Path::new(path)).map_err(|error| {
            if error.is_missing() {
                recorder.missing(root.join(path));
            }
            FileError(error.to_string())
        })?;
        read(&bytes, path)
    })?;
    let schema = Schema::compile(&bundled.json).map_err(|what| Problem::new(node.position, what))?;
    Ok(Compiled {
        check: Box::new(schema),
        text: Payload::json(bundled.json),
        files: bundled.files.into_iter().map(PathBuf::from).collect(),
    })
}

fn read(bytes: &[u8], path: &str) -> Result<Node, FileError> {
    let yaml = path.ends_with(".yaml") || path.ends_with(".yml");
    let format = if yaml { DocumentFormat::Yaml } else { DocumentFormat::Json };
    doc::read(format, bytes)
        .map_err(|problem| FileError(format!("is broken at {}: {}", problem.position, problem.message)))
}
