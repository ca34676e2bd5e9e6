//! The files that one tool file was loaded from. The loader and the tool itself check whether they changed.

use super::changes::Changes;
use super::digest;
use super::stamp::Stamps;
use super::written::FileUse;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use toolyard_protocol::Digest;

/// Endings of files that an interpreter runs.
const CODE: [&str; 11] = ["py", "pyc", "so", "sh", "js", "mjs", "cjs", "ts", "php", "rb", "pl"];

/// Everything that decided how one tool file was read.
pub struct Inputs {
    stamps: Stamps,
    /// Whether equal stamps prove equal content; set when the content was compared after they settled.
    reliable: AtomicBool,
    /// `None` for files that gave no tool.
    content: Option<Content>,
}

/// What the digest of a tool covers.
pub struct Content {
    pub root: PathBuf,
    /// The tool file, relative to `root` like `files`.
    pub manifest: PathBuf,
    pub files: Vec<PathBuf>,
    pub digest: Digest,
    pub file_use: FileUse,
}

impl Inputs {
    pub fn new(stamps: Stamps, content: Option<Content>) -> Inputs {
        Inputs { reliable: AtomicBool::new(stamps.is_reliable()), stamps, content }
    }

    /// Whether reading the file again would give the same result. Costs a `stat` per input; while the stamps
    /// are not reliable, the content is compared too.
    pub fn is_current(&self) -> bool {
        if self.is_reliable() {
            return self.stamps.is_unchanged();
        }
        // Before the comparison: a stamp that settles during it may hide a change.
        let settled = self.stamps.settles_in(SystemTime::now()).is_zero();
        if !self.stamps.is_unchanged() {
            return false;
        }
        let same = self.content.as_ref().is_some_and(Content::is_same);
        if same && settled {
            self.reliable.store(true, Ordering::Relaxed);
        }
        same
    }

    /// Like `is_current`, but checks only what `changes` may affect.
    pub fn is_current_after(&self, changes: &Changes) -> bool {
        (self.is_reliable() && !changes.affect(&self.stamps)) || self.is_current()
    }

    pub fn is_reliable(&self) -> bool {
        self.reliable.load(Ordering::Relaxed)
    }

    /// The files that run as part of the tool; others of its digest are data.
    pub fn code(&self) -> impl Iterator<Item = PathBuf> {
        let content = self.content.iter();
        let files = content.flat_map(|content| content.files.iter().map(|file| content.root.join(file)));
        files.filter(|file| is_code(file))
    }

    /// `None` for files that gave no tool.
    pub fn file_use(&self) -> Option<&FileUse> {
        self.content.as_ref().map(|content| &content.file_use)
    }

    pub fn stamps(&self) -> &Stamps {
        &self.stamps
    }
}

fn is_code(file: &Path) -> bool {
    let is_executable = || std::fs::metadata(file).is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0);
    has_code_extension(file) || is_executable()
}

/// Whether an interpreter runs files with this ending.
pub fn has_code_extension(file: &Path) -> bool {
    let by_name = file.extension().and_then(|extension| extension.to_str());
    by_name.is_some_and(|extension| CODE.contains(&extension))
}

impl Content {
    fn is_same(&self) -> bool {
        let manifest = super::read_bounded(&self.root, &self.manifest);
        manifest.is_ok_and(|bytes| {
            digest::digest(&bytes, &self.root, &self.files, drop).is_ok_and(|digest| digest == self.digest)
        })
    }
}
