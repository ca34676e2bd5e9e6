//! A tool's schemas: inline or in files beside it, made self-contained and compiled.

use super::load_cache::InputRecorder;
use crate::resources::check_name;
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

/// The folder that schema files are read from, and the state folder, which they never lie in.
#[derive(Clone, Copy)]
pub struct SchemaFolder<'a> {
    pub root: &'a Path,
    pub state: &'a Path,
}

/// `source` is the tool file, relative to the root. Schema files are recorded, missing ones too.
pub fn compile(
    node: &Node,
    folder: SchemaFolder<'_>,
    source: &str,
    recorder: &InputRecorder,
) -> Result<Compiled, Problem> {
    if !matches!(node.value, Value::Map(_)) {
        return Err(Problem::new(node.position, format!("a schema must be a map, not {}", node.kind()))
            .hint("write the schema here, or $ref: ./file.schema.json"));
    }
    let root = folder.root;
    let bundled = bundle(node, source, &mut |path| {
        folder.check(path)?;
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

impl SchemaFolder<'_> {
    /// Clients see the schemas of a tool, so they come from files that the yard's owner may show.
    fn check(&self, path: &str) -> Result<(), FileError> {
        let names = path.split('/').try_for_each(check_name);
        names.map_err(|what| FileError(format!("cannot be used: {what}")))?;
        match self.root.join(path).starts_with(self.state) {
            true => Err(FileError("cannot be used: it lies in the state folder".to_owned())),
            false => Ok(()),
        }
    }
}

fn read(bytes: &[u8], path: &str) -> Result<Node, FileError> {
    let yaml = path.ends_with(".yaml") || path.ends_with(".yml");
    let format = if yaml { DocumentFormat::Yaml } else { DocumentFormat::Json };
    doc::read(format, bytes)
        .map_err(|problem| FileError(format!("is broken at {}: {}", problem.position, problem.message)))
}
