//! Loads the tools of a yard: finds the files, checks each by itself, and reports every problem with its place.

mod digest;
mod manifest;
mod naming;
mod pack;
mod reading;
mod walk;

pub use reading::Reading;

use crate::child::Launcher;
use crate::host::Host;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolyard_engine::{Candidate, Severity, Snapshot, SourceProblem};
use toolyard_protocol::Limits;
use toolyard_wire::doc::{self, Language, Problem};

/// Limits of tools that state none, per file format.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    pub pack: Limits,
    pub manifest: Limits,
}

/// Reads yards.
pub struct Loader {
    pub root: PathBuf,
    pub host: Arc<Host>,
    pub launcher: Arc<Launcher>,
    pub defaults: Defaults,
}

/// What a yard's files gave.
#[derive(Default)]
pub struct Loaded {
    pub candidates: Vec<Candidate>,
    pub problems: Vec<SourceProblem>,
}

impl Loaded {
    pub fn into_snapshot(self) -> Snapshot {
        Snapshot::build(self.candidates, self.problems)
    }
}

impl Loader {
    /// Loads everything. Never fails as a whole: what cannot be read is a problem of its own file.
    pub fn load(&self) -> Loaded {
        let mut loaded = Loaded::default();
        let found = walk::tool_files(&self.root);
        loaded.problems.extend(found.problems);
        for file in found.files {
            self.load_file(&file, &mut loaded);
        }
        loaded
    }

    fn load_file(&self, file: &walk::ToolFile, loaded: &mut Loaded) {
        let bytes = match read_bounded(&self.root.join(&file.path)) {
            Ok(bytes) => bytes,
            Err(what) => return loaded.problems.push(whole_file(&file.source, what)),
        };
        let language = match file.format {
            walk::FileFormat::Pack => Language::Yaml,
            walk::FileFormat::Manifest => Language::Json,
        };
        let reading = Reading::new(self, file, &bytes);
        let checked = doc::read(language, &bytes).map_err(|problem| vec![problem]).and_then(|node| match file.format {
            walk::FileFormat::Pack => pack::read(&node, &reading),
            walk::FileFormat::Manifest => manifest::read(&node, &reading),
        });
        match checked {
            Ok(checked) => {
                let warnings = checked.warnings.into_iter();
                loaded.problems.extend(warnings.map(|what| warning(&file.source, what)));
                loaded.candidates.push(checked.candidate);
            }
            Err(problems) => loaded.problems.extend(problems.into_iter().map(|p| placed(&file.source, p))),
        }
    }
}

/// Files over the bound are not read into memory just to be refused.
fn read_bounded(path: &Path) -> Result<Vec<u8>, String> {
    let size = std::fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?.len();
    if size > doc::MAX_BYTES as u64 {
        return Err(format!("the file has {size} bytes; at most {} are read", doc::MAX_BYTES));
    }
    std::fs::read(path).map_err(|error| format!("cannot be read: {error}"))
}

fn placed(source: &str, problem: Problem) -> SourceProblem {
    SourceProblem {
        source: source.to_owned(),
        place: Some((problem.place.line, problem.place.column)),
        message: problem.message,
        hint: problem.hint,
        severity: Severity::Error,
    }
}

fn whole_file(source: &str, message: String) -> SourceProblem {
    SourceProblem { source: source.to_owned(), place: None, message, hint: None, severity: Severity::Error }
}

fn warning(source: &str, message: String) -> SourceProblem {
    SourceProblem { severity: Severity::Warning, ..whole_file(source, message) }
}
