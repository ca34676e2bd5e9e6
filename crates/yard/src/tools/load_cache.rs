//! The results of earlier loads, so that a load reads only what changed.

use super::changes::Changes;
use super::inputs::Inputs;
use super::stamp::Stamps;
use super::walk::{FoundFiles, ToolFile};
use super::{Loaded, file_problem};
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolyard_engine::{Candidate, SourceProblem};

/// The results by tool file (relative to the yard); those of removed files are dropped.
#[derive(Default)]
pub struct LoadCache {
    files: HashMap<PathBuf, FileResult>,
    /// Hash of the tool files found and of the problems with folders.
    listing: u64,
}

/// The result of reading one tool file.
pub struct FileResult {
    pub inputs: Arc<Inputs>,
    pub candidate: Option<Candidate>,
    pub problems: Vec<SourceProblem>,
}

/// Records and stamps the paths that decide how a file is read.
#[derive(Default)]
pub struct InputRecorder(RefCell<Stamps>);

impl InputRecorder {
    /// Call it before reading the path.
    pub fn add(&self, path: PathBuf) {
        self.0.borrow_mut().add(path);
    }

    /// Call it when a path to read does not exist.
    pub fn missing(&self, path: PathBuf) {
        self.0.borrow_mut().missing(path);
    }

    pub fn take(&self) -> Stamps {
        self.0.take()
    }
}

impl FileResult {
    pub fn failed(stamps: Stamps, problems: Vec<SourceProblem>) -> FileResult {
        FileResult { inputs: Arc::new(Inputs::new(stamps, None)), candidate: None, problems }
    }
}

impl LoadCache {
    /// Loads the files in order, reading only those that are new or changed.
    pub fn load(
        &mut self,
        root: &Path,
        found: FoundFiles,
        changes: &Changes,
        read: impl Fn(&ToolFile, &InputRecorder) -> FileResult,
    ) -> Loaded {
        self.listing = listing(&found);
        let mut before = std::mem::replace(&mut self.files, HashMap::with_capacity(found.files.len()));
        let mut loaded = Loaded { problems: found.problems, folders: found.folders, ..Loaded::default() };
        for file in found.files {
            let known = before.remove(&file.path).filter(|known| known.inputs.is_current_after(changes));
            let result = known.unwrap_or_else(|| {
                loaded.read += 1;
                read_catching_panic(root, &file, &read)
            });
            loaded.candidates.extend(result.candidate.clone());
            loaded.problems.extend(result.problems.iter().cloned());
            loaded.inputs.push(result.inputs.clone());
            self.files.insert(file.path, result);
        }
        loaded
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// `None` when a load would read nothing; else a fingerprint of the current files.
    pub fn difference(&self, root: &Path, found: &FoundFiles) -> Option<u64> {
        let listing = listing(found);
        let mut same = listing == self.listing;
        let mut state = DefaultHasher::new();
        listing.hash(&mut state);
        for file in &found.files {
            same &= match self.files.get(&file.path) {
                Some(known) => known.inputs.stamps().compare(&mut state),
                None => Stamps::of(root.join(&file.path)).compare(&mut state),
            };
        }
        (!same).then(|| state.finish())
    }
}

/// A panic in a parser must not stop the reload of other files.
fn read_catching_panic(
    root: &Path,
    file: &ToolFile,
    read: impl Fn(&ToolFile, &InputRecorder) -> FileResult,
) -> FileResult {
    let recorder = InputRecorder::default();
    recorder.add(root.join(&file.path));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(file, &recorder)));
    caught.unwrap_or_else(|_| {
        let what = "internal error while reading this file; please report it as a bug".to_owned();
        FileResult::failed(recorder.take(), vec![file_problem(&file.source, what)])
    })
}

fn listing(found: &FoundFiles) -> u64 {
    let mut state = DefaultHasher::new();
    found.files.iter().for_each(|file| file.path.hash(&mut state));
    found.problems.iter().for_each(|problem| (&problem.source, &problem.message).hash(&mut state));
    state.finish()
}
