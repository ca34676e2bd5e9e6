//! Files that are being written: locked by their writer, gone with it, and given their name only when whole.

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
                // Another process that swept between the two steps took the file for left over: make another.
                if temp.file.metadata()?.nlink() > 0 {
                    return Ok(temp);
                }
            }
        };
        make().map_err(|e| BlobError::io("make a temporary file", e))
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.file.write_all(bytes).map_err(|e| BlobError::io("write a temporary file", e))
    }

    /// On disk, with the present as its time: its age counts from when it was whole.
    pub fn sync(&self) -> Result<(), BlobError> {
        let sync = || {
            self.file.set_modified(SystemTime::now())?;
            self.file.sync_all()
        };
        sync().map_err(|e| BlobError::io("sync a temporary file", e))
    }

    /// Gives it its place and name. From here on it is no temporary file any more.
    pub fn persist(mut self, shard: &Dir, name: &str) -> Result<(), BlobError> {
        let moved = self.folder.temps.rename(&self.name, shard, name);
        moved.map_err(|e| BlobError::io(&format!("put {name} into its place"), e))?;
        self.named = false;
        Ok(())
    }

    /// The same open file once more, for reading what was written.
    pub fn try_clone(&self) -> Result<File, BlobError> {
        self.file.try_clone().map_err(|e| BlobError::io("use a temporary file", e))
    }

    /// Removes the name now; the bytes go when the file is closed, which may take longer.
    pub fn unlink(&mut self) {
        if std::mem::take(&mut self.named) {
            // What cannot be removed now is swept when the store is opened next.
            let _ = self.folder.temps.remove(&self.name);
        }
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        self.unlink();
    }
}

/// Moves a blob's file out of its shard: it is gone at once, and what is left is to remove it. Gives its name in `tmp/`.
pub(super) fn move_to_temp(folder: &Folder, shard: &Dir, name: &str) -> io::Result<String> {
    let gone = format!("{}.gone", new_id(&SystemClock, &SystemRandom));
    shard.rename(name, &folder.temps, &gone)?;
    Ok(gone)
}

/// Removes what writers left that are no more.
pub(super) fn sweep(folder: &Folder) -> Result<(), BlobError> {
    let fault = |e| BlobError::io("clear tmp", e);
    for entry in fs::read_dir(folder.path.join("tmp")).map_err(fault)? {
        let name = entry.map_err(fault)?.file_name();
        let Some(name) = name.to_str().filter(|name| name.ends_with(".part") || name.ends_with(".gone"))
        else {
            continue;
        };
        match folder.temps.file(name) {
            // Its writer lives.
            Ok(Some(file)) if file.try_lock().is_err() => {}
            Ok(None) => {}
            // What is there that is no file of ours, a folder say, must not keep the store from opening.
            Ok(Some(_)) | Err(_) => drop(folder.temps.remove(name)),
        }
    }
    Ok(())
}
