//! The files that one tool file was loaded from. The loader and the tool itself check whether they changed.

use super::changes::Changes;
use super::digest;
use super::stamp::Stamps;
use super::written::FileUse;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use toolyard_protocol::Digest;

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

    /// `None` for files that gave no tool.
    pub fn file_use(&self) -> Option<&FileUse> {
        self.content.as_ref().map(|content| &content.file_use)
    }

    pub fn stamps(&self) -> &Stamps {
        &self.stamps
    }
}

impl Content {
    fn is_same(&self) -> bool {
        let manifest = super::read_bounded(&self.root, &self.manifest);
        manifest.is_ok_and(|bytes| {
            digest::digest(&bytes, &self.root, &self.files, drop).is_ok_and(|digest| digest == self.digest)
        })
    }
}
