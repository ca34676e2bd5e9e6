//! Loads the tools of a yard: finds the files, checks each independently, and reports problems with position.

pub(crate) mod changes;
mod digest;
pub(crate) mod inputs;
pub(crate) mod load_cache;
#[cfg(test)]
mod load_cache_tests;
mod manifest;
mod naming;
mod program_text;
mod sandbox;
pub(crate) mod schemas;
mod secrets;
mod shared_fields;
pub(crate) mod stamp;
mod tool_reader;
mod toolpack;
pub(crate) mod walk;
pub(crate) mod written;

pub use sandbox::SandboxPolicy;
pub use tool_reader::{ProcessSpec, ToolReader};

use crate::kinds;
use crate::prompts::Packs;
use changes::Changes;
use inputs::Inputs;
use load_cache::{FileResult, InputRecorder, LoadCache};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tool_reader::{Checked, FileContext};
use toolyard_engine::{Candidate, Severity, Snapshot, SourceProblem, ToolLimiter};
use toolyard_formats::doc::{self, DocumentFormat, Node, Problem};
use toolyard_protocol::{Behavior, Limits, ToolName};
use toolyard_runtimes::Host;
use toolyard_runtimes::beneath::{self, LinkPolicy, ReadError};
use toolyard_runtimes::grants::Places;
use toolyard_runtimes::http::Clients;
use toolyard_runtimes::interpreter::Lookup;
use toolyard_runtimes::secrets::Secrets;
use toolyard_runtimes::shims;
use toolyard_sandbox::Launcher;
use walk::{FileFormat, ToolFile};

/// Limits of tools that state none, per file format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    pub pack: Limits,
    pub manifest: Limits,
}

/// Settings of the yard that decide how a tool file is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadSettings {
    pub defaults: Defaults,
    pub sandbox_policy: SandboxPolicy,
    /// Environments are prepared with network access.
    pub prepare_network: bool,
}

/// Loads the tools and prompts of a yard.
pub struct Loader {
    pub root: PathBuf,
    pub state: PathBuf,
    pub places: Arc<Places>,
    pub host: Arc<Host>,
    pub launcher: Arc<Launcher>,
    /// For the files read from now on.
    settings: Mutex<LoadSettings>,
    pub clients: Arc<Clients>,
    pub secrets: Arc<Secrets>,
    load_cache: Mutex<LoadCache>,
    /// Limiters by tool, so that running calls still count after the tool was edited.
    limiters: Mutex<HashMap<ToolName, (Behavior, Arc<ToolLimiter>)>>,
    packs: Mutex<Arc<Packs>>,
}

/// The result of a load.
#[derive(Default)]
pub struct Loaded {
    pub candidates: Vec<Candidate>,
    pub problems: Vec<SourceProblem>,
    /// The prompts.
    pub packs: Arc<Packs>,
    /// How many tool files were read; the others came from the load cache.
    pub read: usize,
    /// Folders that were searched, relative to the yard.
    pub(crate) folders: Vec<PathBuf>,
    /// The inputs of each tool file, and those of the prompts.
    pub(crate) inputs: Vec<Arc<Inputs>>,
}

impl Loaded {
    /// Puts other candidates before those of the files, so that they win name collisions.
    pub fn prepend(mut self, first: Vec<Candidate>) -> Loaded {
        self.candidates.splice(0..0, first);
        self
    }

    fn add_prompts(&mut self, packs: Arc<Packs>) {
        self.problems.extend(packs.problems.iter().cloned());
        self.inputs.extend(packs.inputs().cloned());
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
        sandbox_policy: SandboxPolicy,
    ) -> Loader {
        let config = host.var("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = config.or_else(|| host.home().map(|home| home.join(".config")));
        let config = config.map(|folder| folder.join("toolyard"));
        let places = Arc::new(Places::new(root.clone(), state.clone(), host.home(), config));
        let secrets = Arc::new(Secrets::new(&root, &state, &host));
        let (clients, load_cache, limiters) = (Arc::default(), Mutex::default(), Mutex::default());
        let packs = Mutex::default();
        Loader {
            root,
            state,
            places,
            host,
            launcher,
            settings: Mutex::new(LoadSettings { defaults, sandbox_policy, prepare_network: true }),
            clients,
            secrets,
            load_cache,
            limiters,
            packs,
        }
    }

    /// If the settings differ, the next load reads every file again.
    pub fn set_settings(&self, settings: LoadSettings) {
        let before = std::mem::replace(&mut *lock(&self.settings), settings);
        if before != settings {
            *lock(&self.load_cache) = LoadCache::default();
        }
    }

    pub(crate) fn settings(&self) -> LoadSettings {
        *lock(&self.settings)
    }

    /// Where interpreters are looked for.
    pub fn lookup(&self) -> Lookup<'_> {
        Lookup { host: &self.host, launcher: &self.launcher, places: &self.places }
    }

    /// A program by its name or path in a tool file; of a version manager's shim, the program behind it.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        let mut interpreters = kinds::KINDS.iter().filter_map(|kind| kind.interpreter);
        match interpreters.find(|interpreter| interpreter.names.contains(&name)) {
            Some(interpreter) => interpreter.find_named(self.lookup(), name),
            None => {
                let found = self.host.program(name, &self.root)?;
                Some(shims::real_program(self.lookup(), &found))
            }
        }
    }

    /// The limiter of a tool: that of its earlier version while the declared limits are equal.
    fn limiter(&self, name: &ToolName, behavior: &Behavior) -> Arc<ToolLimiter> {
        let mut known = lock(&self.limiters);
        if let Some((declared, limiter)) = known.get(name)
            && (declared.concurrency, declared.rate) == (behavior.concurrency, behavior.rate)
        {
            return limiter.clone();
        }
        let limiter = Arc::new(ToolLimiter::new(behavior));
        // Most tools have no limits, and need no entry.
        if behavior.concurrency.is_some() || behavior.rate.is_some() {
            known.insert(name.clone(), (behavior.clone(), limiter.clone()));
        }
        limiter
    }

    /// Loads everything, reading only what changed since the last load. Never fails as a whole: a broken file
    /// is a problem of that file only.
    pub fn load(&self) -> Loaded {
        self.load_changes(&Changes::Everywhere)
    }

    /// Like `load`, but checks only `changes`, which must cover every change since the last load.
    pub(crate) fn load_changes(&self, changes: &Changes) -> Loaded {
        let mut load_cache = lock(&self.load_cache);
        let found = walk::tool_files(&self.root);
        let mut loaded =
            load_cache.load(&self.root, found, changes, |file, recorder| self.read_file(file, recorder));
        let folders = written::Folders { root: &self.root, home: self.host.home() };
        // Before the tools can be called.
        self.places.set_written(loaded.separate_code(&folders));
        loaded.add_prompts(self.load_packs(changes));
        // A limiter that no tool and no running call holds belongs to a removed tool.
        lock(&self.limiters).retain(|_, (_, limiter)| Arc::strong_count(limiter) > 1);
        loaded
    }

    /// `None` when the files are unchanged since the last load; else a fingerprint of their current state.
    pub(crate) fn difference(&self) -> Option<u64> {
        let tools = lock(&self.load_cache).difference(&self.root, &walk::tool_files(&self.root));
        let prompts = lock(&self.packs).difference();
        (tools.is_some() || prompts.is_some()).then(|| {
            let mut state = DefaultHasher::new();
            (tools, prompts).hash(&mut state);
            state.finish()
        })
    }

    /// Reloads all prompts when one of their files changed; they are small.
    fn load_packs(&self, changes: &Changes) -> Arc<Packs> {
        let mut packs = lock(&self.packs);
        if !packs.is_current_after(changes) {
            *packs = Arc::new(Packs::load(&self.root, &self.places.state));
        }
        packs.clone()
    }

    fn read_file(&self, file: &ToolFile, recorder: &InputRecorder) -> FileResult {
        let bytes = match read_bounded(&self.root, &file.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.is_missing() {
                    recorder.missing(self.root.join(&file.path));
                }
                return FileResult::failed(
                    recorder.take(),
                    vec![file_problem(&file.source, error.to_string())],
                );
            }
        };
        self.read_bytes(file, &bytes, recorder)
    }

    /// The problems of a tool file with this path below the yard and this content; the file need not exist.
    pub fn check(&self, path: &Path, bytes: &[u8]) -> Vec<SourceProblem> {
        let source = path.to_string_lossy().into_owned();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(format) = walk::format_of(name) else {
            return vec![file_problem(&source, "a tool file is named *.tool.yaml or tool.json".to_owned())];
        };
        let file = ToolFile { path: path.to_owned(), source, format };
        self.read_bytes(&file, bytes, &InputRecorder::default()).problems
    }

    fn read_bytes(&self, file: &ToolFile, bytes: &[u8], recorder: &InputRecorder) -> FileResult {
        let context = FileContext { loader: self, file, bytes, recorder };
        let checked = match file.format {
            FileFormat::Toolpack => {
                document(DocumentFormat::Yaml, bytes).and_then(|node| toolpack::read(&node, context))
            }
            FileFormat::Manifest => {
                document(DocumentFormat::Json, bytes).and_then(|node| manifest::read(&node, context))
            }
        };
        match checked {
            Ok(Checked { candidate, inputs, warnings, notes }) => {
                let warnings = warnings.into_iter().map(|what| warning(&file.source, what));
                let problems =
                    warnings.chain(notes.into_iter().map(|what| note(&file.source, what))).collect();
                FileResult { inputs, candidate: Some(candidate), problems }
            }
            Err(problems) => {
                let problems =
                    problems.into_iter().map(|problem| located_problem(&file.source, problem)).collect();
                FileResult::failed(recorder.take(), problems)
            }
        }
    }
}

fn document(format: DocumentFormat, bytes: &[u8]) -> Result<Node, Vec<Problem>> {
    doc::read(format, bytes).map_err(|problem| vec![problem])
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A regular file of the yard, within bounds. Links are not followed: they could lead out of the yard, or to a
/// file that a tool can write.
pub(crate) fn read_bounded(root: &Path, path: &Path) -> Result<Vec<u8>, ReadError> {
    beneath::read_all(beneath::open_regular(root, path, LinkPolicy::Forbid)?, doc::MAX_BYTES)
}

pub(crate) fn located_problem(source: &str, problem: Problem) -> SourceProblem {
    SourceProblem {
        source: source.to_owned(),
        position: Some((problem.position.line, problem.position.column)),
        message: problem.message,
        hint: problem.hint,
        severity: Severity::Error,
    }
}

pub(crate) fn file_problem(source: &str, message: String) -> SourceProblem {
    SourceProblem {
        source: source.to_owned(),
        position: None,
        message,
        hint: None,
        severity: Severity::Error,
    }
}

pub(crate) fn warning(source: &str, message: String) -> SourceProblem {
    SourceProblem { severity: Severity::Warning, ..file_problem(source, message) }
}

fn note(source: &str, message: String) -> SourceProblem {
    SourceProblem { severity: Severity::Note, ..file_problem(source, message) }
}
