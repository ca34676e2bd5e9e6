//! Loads the tools of a yard: finds the files, checks each by itself, and reports every problem with its place.

mod common;
mod digest;
mod manifest;
mod naming;
mod pack;
mod reading;
mod schemas;
mod secrets;
mod stamp;
mod walk;

pub use reading::{Reading, Spawn};
pub use secrets::Declared;
pub(crate) use stamp::Stamps;

use crate::child::Launcher;
use crate::host::Host;
use crate::http::Clients;
use crate::secrets::Secrets;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use toolyard_engine::{Candidate, Controls, Severity, Snapshot, SourceProblem};
use toolyard_protocol::{Conduct, Limits, ToolName};
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
    pub state: PathBuf,
    pub host: Arc<Host>,
    pub launcher: Arc<Launcher>,
    pub defaults: Defaults,
    pub clients: Arc<Clients>,
    pub secrets: Arc<Secrets>,
    /// Live limits by tool, so that an edited tool keeps the calls that are running in count.
    controls: Mutex<HashMap<ToolName, (Conduct, Arc<Controls>)>>,
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
    pub fn new(
        root: PathBuf,
        state: PathBuf,
        host: Arc<Host>,
        launcher: Arc<Launcher>,
        defaults: Defaults,
    ) -> Loader {
        let secrets = Arc::new(Secrets::new(&state, &host));
        let (clients, controls) = (Arc::default(), Mutex::default());
        Loader { root, state, host, launcher, defaults, clients, secrets, controls }
    }

    /// The live limits of a tool: those of its earlier version while what it declares is the same.
    fn controls(&self, name: &ToolName, conduct: &Conduct) -> Arc<Controls> {
        let mut known = self.controls.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((declared, controls)) = known.get(name)
            && (declared.concurrency, declared.rate) == (conduct.concurrency, conduct.rate)
        {
            return controls.clone();
        }
        let controls = Arc::new(Controls::new(conduct));
        // Tools without limits have nothing to keep, and most have none.
        if conduct.concurrency.is_some() || conduct.rate.is_some() {
            known.insert(name.clone(), (conduct.clone(), controls.clone()));
        }
        controls
    }

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
        let checked =
            doc::read(language, &bytes).map_err(|problem| vec![problem]).and_then(|node| match file.format {
                walk::FileFormat::Pack => pack::read(&node, self, file, &bytes),
                walk::FileFormat::Manifest => manifest::read(&node, self, file, &bytes),
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
