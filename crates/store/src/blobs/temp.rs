//! Temporary files: locked by their writer, removed after it dies, renamed into place only when complete.

use super::BlobError;
use super::folder::{Dir, Folder};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::SystemTime;
use toolyard_engine::clock::{SystemClock, SystemRandom, new_id};

/// A file in `tmp/`. Dropping it removes it.
pub(super) struct Temp {
    folder: Arc<Folder>,
    file: File,
    name: String,
    named: bool,
}

impl Temp {
    pub fn create(folder: &Arc<Folder>) -> Result<Temp, BlobError> {
        let make = || {
            loop {
                let name = format!("{}.part", new_id(&SystemClock, &SystemRandom));
                let file = folder.temps.create(&name)?;
                let temp = Temp { folder: folder.clone(), file, name, named: true };
                temp.file.lock()?;
                // A sweep of another process between the two steps removed the file: create another one.
                if temp.file.metadata()?.nlink() > 0 {
                    return Ok(temp);
                }
            }
        };
        make().map_err(|e| BlobError::io("create a temporary file", e))
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.file.write_all(bytes).map_err(|e| BlobError::io("write a temporary file", e))
    }

    /// Syncs the file, with the current time as its mtime: the age of a blob counts from here.
    pub fn sync(&self) -> Result<(), BlobError> {
        let sync = || {
            self.file.set_modified(SystemTime::now())?;
            self.file.sync_all()
        };
        sync().map_err(|e| BlobError::io("sync a temporary file", e))
    }

    /// Renames the file to its final name in the shard.
    pub fn persist(mut self, shard: &Dir, name: &str) -> Result<(), BlobError> {
        let moved = self.folder.temps.rename(&self.name, shard, name);
        moved.map_err(|e| BlobError::io(&format!("rename {name} into place"), e))?;
        self.named = false;
        Ok(())
    }

    /// A second handle of the same open file, for reading what was written.
    pub fn try_clone(&self) -> Result<File, BlobError> {
        self.file.try_clone().map_err(|e| BlobError::io("duplicate the handle of a temporary file", e))
    }

    /// Removes the name now; the space is freed when the file is closed, which may take longer.
    pub fn unlink(&mut self) {
        if std::mem::take(&mut self.named) {
            // A file that cannot be removed now is swept when the store is opened next.
            let _ = self.folder.temps.remove(&self.name);
        }
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        self.unlink();
    }
}

/// Moves a blob's file to `tmp/`: it disappears at once and can be deleted later. Returns its new name.
pub(super) fn move_to_temp(folder: &Folder, shard: &Dir, name: &str) -> io::Result<String> {
    let gone = format!("{}.gone", new_id(&SystemClock, &SystemRandom));
    shard.rename(name, &folder.temps, &gone)?;
    Ok(gone)
}

/// Removes files of dead writers.
pub(super) fn sweep(folder: &Folder) -> Result<(), BlobError> {
    let fault = |e| BlobError::io("clear tmp", e);
    for entry in fs::read_dir(folder.path.join("tmp")).map_err(fault)? {
        let name = entry.map_err(fault)?.file_name();
        let Some(name) = name.to_str().filter(|name| name.ends_with(".part") || name.ends_with(".gone"))
        else {
            continue;
        };
        match folder.temps.file(name) {
            // Its writer is alive.
            Ok(Some(file)) if file.try_lock().is_err() => {}
            Ok(None) => {}
            // Foreign entries, such as a folder, must not prevent the store from opening.
            Ok(Some(_)) | Err(_) => drop(folder.temps.remove(name)),
        }
    }
    Ok(())
}
