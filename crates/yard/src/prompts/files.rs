//! The files of prompts: read within bounds, remembered so that a change shows, never outside the yard.

use crate::tools::inputs::Inputs;
use crate::tools::load_cache::InputRecorder;
use crate::tools::read_bounded;
use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::Arc;

/// Bytes of all files together.
const MAX_TOTAL: usize = 64 << 20;

/// One pass over the files.
pub struct PromptFiles<'a> {
    pub root: &'a Path,
    pub recorder: InputRecorder,
    hasher: RefCell<DefaultHasher>,
    total: Cell<usize>,
}

impl<'a> PromptFiles<'a> {
    pub fn new(root: &'a Path) -> PromptFiles<'a> {
        PromptFiles {
            root,
            recorder: InputRecorder::default(),
            hasher: RefCell::default(),
            total: Cell::default(),
        }
    }

    /// `path` is relative to the yard; the error reads after the file's name.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let full = self.root.join(path);
        self.recorder.add(full.clone());
        let real = std::fs::canonicalize(&full).map_err(|error| {
            self.recorder.missing(full.clone());
            format!("cannot be read: {error}")
        })?;
        if !real.starts_with(self.root) {
            return Err("is a link that leads out of the yard".to_owned());
        }
        let bytes = read_bounded(&real)?;
        self.total.set(self.total.get() + bytes.len());
        if self.total.get() > MAX_TOTAL {
            return Err(format!("is not read: the files of all prompts together are over {MAX_TOTAL} bytes"));
        }
        self.hash_bytes(path.as_os_str().as_encoded_bytes());
        self.hash_bytes(&bytes);
        Ok(bytes)
    }

    /// Whether there is something at the path; when that changes, the prompts are read again.
    pub fn exists(&self, path: &Path) -> bool {
        let full = self.root.join(path);
        self.recorder.add(full.clone());
        full.exists()
    }

    /// What was read by other ways counts too.
    pub fn hash_bytes(&self, bytes: &[u8]) {
        self.hasher.borrow_mut().write(bytes);
        self.hasher.borrow_mut().write_usize(bytes.len());
    }

    /// A mark of all content, and what was looked at.
    pub fn finish(self) -> (u64, Arc<Inputs>) {
        (self.hasher.borrow().finish(), Arc::new(Inputs::new(self.recorder.take(), None)))
    }
}
