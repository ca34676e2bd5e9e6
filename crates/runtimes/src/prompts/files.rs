//! The files of prompts: read within bounds, remembered so that a change shows, never outside the yard.

use crate::yard::kept::Notes;
use crate::yard::made::Made;
use crate::yard::read_bounded;
use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::Arc;

/// Bytes of all files together.
const MAX_TOTAL: usize = 64 << 20;

/// One pass over the files.
pub struct Files<'a> {
    pub root: &'a Path,
    pub notes: Notes,
    content: RefCell<DefaultHasher>,
    total: Cell<usize>,
}

impl<'a> Files<'a> {
    pub fn new(root: &'a Path) -> Files<'a> {
        Files { root, notes: Notes::default(), content: RefCell::default(), total: Cell::default() }
    }

    /// `path` is relative to the yard; the error reads after the file's name.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let full = self.root.join(path);
        self.notes.add(full.clone());
        let real = std::fs::canonicalize(&full).map_err(|error| {
            self.notes.missing(full.clone());
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
        self.count(path.as_os_str().as_encoded_bytes());
        self.count(&bytes);
        Ok(bytes)
    }

    /// Whether there is something at the path; when that changes, the prompts are read again.
    pub fn exists(&self, path: &Path) -> bool {
        let full = self.root.join(path);
        self.notes.add(full.clone());
        full.exists()
    }

    /// What was read by other ways counts too.
    pub fn count(&self, bytes: &[u8]) {
        self.content.borrow_mut().write(bytes);
        self.content.borrow_mut().write_usize(bytes.len());
    }

    /// A mark of all content, and what was looked at.
    pub fn finish(self) -> (u64, Arc<Made>) {
        (self.content.borrow().finish(), Arc::new(Made::new(self.notes.take(), None)))
    }
}
