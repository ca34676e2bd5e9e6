//! Loads the tools of a yard: finds the files, checks each by itself, and reports every problem with its place.

pub(crate) mod changes;
mod common;
mod digest;
pub(crate) mod kept;
#[cfg(test)]
mod kept_tests;
pub(crate) mod made;
mod manifest;
mod naming;
mod pack;
mod reading;
mod sandbox;
pub(crate) mod schemas;
mod secrets;
mod stamp;
#[cfg(test)]
pub(crate) mod testing;
mod walk;
pub(crate) mod watch;

pub use reading::{Reading, Spawn};
pub use sandbox::{Needs, NetworkRule, Unconfined, Walls};
pub use secrets::Declared;
pub use watch::{Seen, WatchOptions, Watcher};

use crate::child::Launcher;
use crate::host::Host;
use crate::http::Clients;
use crate::prompts::Packs;
use crate::secrets::Secrets;
use changes::Changes;
use kept::{Kept, Notes, ReadFile};
use made::Made;
use reading::{Checked, Origin};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use toolyard_engine::{Candidate, Controls, Severity, Snapshot, SourceProblem};
use toolyard_protocol::{Conduct, Limits, ToolName};
use toolyard_wire::doc::{self, Language, Node, Problem};
use walk::{FileFormat, ToolFile};

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
    pub walls: Walls,
    pub clients: Arc<Clients>,
    pub secrets: Arc<Secrets>,
    kept: Mutex<Kept>,
    /// Live limits by tool, so that an edited tool keeps the calls that are running in count.
    controls: Mutex<HashMap<ToolName, (Conduct, Arc<Controls>)>>,
    packs: Mutex<Arc<Packs>>,
}

/// What a yard's files gave.
#[derive(Default)]
pub struct Loaded {
    pub candidates: Vec<Candidate>,
    pub problems: Vec<SourceProblem>,
    /// The prompts.
    pub packs: Arc<Packs>,
    /// How many tool files were read; the others were as they had been.
    pub read: usize,
    /// Folders that were searched, relative to the yard.
    folders: Vec<PathBuf>,
    /// What each tool file was made of.
    made: Vec<Arc<Made>>,
}

impl Loaded {
    /// Puts other candidates before those of the files: where names collide, they stay.
    pub fn after(mut self, first: Vec<Candidate>) -> Loaded {
        self.candidates.splice(0..0, first);
        self
    }

    fn add_prompts(&mut self, packs: Arc<Packs>) {
        self.problems.extend(packs.problems.iter().cloned());
        self.made.extend(packs.made().cloned());
        self.packs = packs;
    }

    pub fn into_snapshot(mut self) -> Snapshot {
        let names = self.candidates.iter().filter(|candidate| candidate.enabled).flat_map(|candidate| {
            let spec = &candidate.entry.spec;
            [spec.exposed.as_str(), spec.name.as_str()]
        });
        let names: HashSet<&str> = names.collect();
        self.problems.extend(self.packs.missing_tools(|name| names.contains(name)));
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
        walls: Walls,
    ) -> Loader {
        let secrets = Arc::new(Secrets::new(&state, &host));
        let (clients, kept, controls) = (Arc::default(), Mutex::default(), Mutex::default());
        let packs = Mutex::default();
        Loader { root, state, host, launcher, defaults, walls, clients, secrets, kept, controls, packs }
    }

    /// The live limits of a tool: those of its earlier version while what it declares is the same.
    fn controls(&self, name: &ToolName, conduct: &Conduct) -> Arc<Controls> {
        let mut known = lock(&self.controls);
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

    /// Loads everything, reading only what changed since the last time. Never fails as a whole: what cannot be
    /// read is a problem of its own file.
    pub fn load(&self) -> Loaded {
        self.load_after(&Changes::Everywhere)
    }

    /// Like `load`, for one who was told of every change since the last load: looks only where there were some.
    fn load_after(&self, changes: &Changes) -> Loaded {
        let mut kept = lock(&self.kept);
        let found = walk::tool_files(&self.root);
        let mut loaded = kept.load(&self.root, found, changes, |file, notes| self.read_file(file, notes));
        loaded.add_prompts(self.load_packs(changes));
        // What no tool and no running call holds belongs to a tool that is gone.
        lock(&self.controls).retain(|_, (_, controls)| Arc::strong_count(controls) > 1);
        loaded
    }

    /// `None` when a load would give what the last one gave; else a number that stays the same while files do.
    fn difference(&self) -> Option<u64> {
        let tools = lock(&self.kept).difference(&self.root, &walk::tool_files(&self.root));
        let prompts = lock(&self.packs).difference();
        (tools.is_some() || prompts.is_some()).then(|| {
            let mut state = DefaultHasher::new();
            (tools, prompts).hash(&mut state);
            state.finish()
        })
    }

    /// All prompts are read again when a file of one changed; they are small.
    fn load_packs(&self, changes: &Changes) -> Arc<Packs> {
        let mut packs = lock(&self.packs);
        if !packs.is_current_after(changes) {
            *packs = Arc::new(Packs::load(&self.root));
        }
        packs.clone()
    }

    fn read_file(&self, file: &ToolFile, notes: &Notes) -> ReadFile {
        let bytes = match read_bounded(&self.root.join(&file.path)) {
            Ok(bytes) => bytes,
            Err(what) => {
                if !self.root.join(&file.path).exists() {
                    notes.missing(self.root.join(&file.path));
                }
                return ReadFile::failed(notes.take(), vec![whole_file(&file.source, what)]);
            }
        };
        self.read_bytes(file, &bytes, notes)
    }

    /// What is wrong with a tool file of that path below the yard and that content, whether it is there or not.
    pub fn check(&self, path: &Path, bytes: &[u8]) -> Vec<SourceProblem> {
        let source = path.to_string_lossy().into_owned();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(format) = walk::format_of(name) else {
            return vec![whole_file(&source, "this is no name of a tool file".to_owned())];
        };
        let file = ToolFile { path: path.to_owned(), source, format };
        self.read_bytes(&file, bytes, &Notes::default()).problems
    }

    fn read_bytes(&self, file: &ToolFile, bytes: &[u8], notes: &Notes) -> ReadFile {
        let origin = Origin { loader: self, file, bytes, notes };
        let checked = match file.format {
            FileFormat::Pack => document(Language::Yaml, bytes).and_then(|node| pack::read(&node, origin)),
            FileFormat::Manifest => {
                document(Language::Json, bytes).and_then(|node| manifest::read(&node, origin))
            }
        };
        match checked {
            Ok(Checked { candidate, made, warnings, notes }) => {
                let warnings = warnings.into_iter().map(|what| warning(&file.source, what));
                let problems =
                    warnings.chain(notes.into_iter().map(|what| note(&file.source, what))).collect();
                ReadFile { made, candidate: Some(candidate), problems }
            }
            Err(problems) => {
                let problems = problems.into_iter().map(|problem| placed(&file.source, problem)).collect();
                ReadFile::failed(notes.take(), problems)
            }
        }
    }
}

fn document(language: Language, bytes: &[u8]) -> Result<Node, Vec<Problem>> {
    doc::read(language, bytes).map_err(|problem| vec![problem])
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Files over the bound are not read into memory just to be refused.
pub(crate) fn read_bounded(path: &Path) -> Result<Vec<u8>, String> {
    let size = std::fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?.len();
    if size > doc::MAX_BYTES as u64 {
        return Err(format!("the file has {size} bytes; at most {} are read", doc::MAX_BYTES));
    }
    std::fs::read(path).map_err(|error| format!("cannot be read: {error}"))
}

pub(crate) fn placed(source: &str, problem: Problem) -> SourceProblem {
    SourceProblem {
        source: source.to_owned(),
        place: Some((problem.place.line, problem.place.column)),
        message: problem.message,
        hint: problem.hint,
        severity: Severity::Error,
    }
}

pub(crate) fn whole_file(source: &str, message: String) -> SourceProblem {
    SourceProblem { source: source.to_owned(), place: None, message, hint: None, severity: Severity::Error }
}

pub(crate) fn warning(source: &str, message: String) -> SourceProblem {
    SourceProblem { severity: Severity::Warning, ..whole_file(source, message) }
}

fn note(source: &str, message: String) -> SourceProblem {
    SourceProblem { severity: Severity::Note, ..whole_file(source, message) }
}
