//! Reads prompt files, bounded in size and only within the yard, and records them to detect changes.

use crate::tools::inputs::Inputs;
use crate::tools::load_cache::InputRecorder;
use crate::tools::read_bounded;
use crate::tools::schemas::SchemaFolder;
use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::Arc;

/// Total bytes of all prompt files.
const MAX_TOTAL: usize = 64 << 20;

/// One pass over the files.
pub struct PromptFiles<'a> {
    pub folder: SchemaFolder<'a>,
    pub recorder: InputRecorder,
    hasher: RefCell<DefaultHasher>,
    total: Cell<usize>,
}

impl<'a> PromptFiles<'a> {
    pub fn new(folder: SchemaFolder<'a>) -> PromptFiles<'a> {
        PromptFiles {
            folder,
            recorder: InputRecorder::default(),
            hasher: RefCell::default(),
            total: Cell::default(),
        }
    }

    /// `path` is relative to the yard; the error continues a sentence that starts with the file name.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let full = self.folder.root.join(path);
        self.recorder.add(full.clone());
        let bytes = read_bounded(self.folder.root, path).map_err(|error| {
            if error.is_missing() {
                self.recorder.missing(full.clone());
            }
            error.to_string()
        })?;
        self.total.set(self.total.get() + bytes.len());
        if self.total.get() > MAX_TOTAL {
            return Err(format!("is not read: all prompt files together exceed {MAX_TOTAL} bytes"));
        }
        self.hash_bytes(path.as_os_str().as_encoded_bytes());
        self.hash_bytes(&bytes);
        Ok(bytes)
    }

    /// Whether the path exists; recorded, so that the prompts are reloaded when that changes.
    pub fn exists(&self, path: &Path) -> bool {
        let full = self.folder.root.join(path);
        self.recorder.add(full.clone());
        full.exists()
    }

    /// Adds content that was read elsewhere to the content hash.
    pub fn hash_bytes(&self, bytes: &[u8]) {
        self.hasher.borrow_mut().write(bytes);
        self.hasher.borrow_mut().write_usize(bytes.len());
    }

    /// The content hash, and the recorded inputs.
    pub fn finish(self) -> (u64, Arc<Inputs>) {
        (self.hasher.borrow().finish(), Arc::new(Inputs::new(self.recorder.take(), None)))
    }
}
