//! Detects dead processes: each process locks its own file, and the kernel releases the lock when it dies.
//!
//! No clock is involved, so neither a clock jump nor a long pause makes a live process look dead.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use toolyard_protocol::{Error, ErrorKind, Id};

/// This process among the workers of a state folder.
pub struct Owner {
    pub id: Id,
    folder: PathBuf,
    /// Locked as long as it is open.
    lock: Mutex<File>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot use the worker file {path}: {source}")]
pub struct OwnerError {
    path: PathBuf,
    source: std::io::Error,
}

impl From<OwnerError> for Error {
    fn from(error: OwnerError) -> Error {
        Error::new(ErrorKind::Unavailable, error.to_string())
            .hint("make the state folder writable, or set [state] dir in toolyard.toml")
    }
}

impl Owner {
    pub fn register(state_dir: &Path, id: Id) -> Result<Owner, OwnerError> {
        let folder = state_dir.join("workers");
        let path = folder.join(id.to_string());
        match lock_file(&folder, id) {
            Ok(lock) => Ok(Owner { id, folder, lock: Mutex::new(lock) }),
            Err(source) => Err(OwnerError { path, source }),
        }
    }

    /// Registers again if the file was removed with the state folder, and the folder is back: without the file
    /// other processes would take this one for dead.
    pub fn renew(&self) {
        let is_back = || self.folder.parent().is_some_and(Path::is_dir);
        if self.folder.join(self.id.to_string()).exists() || !is_back() {
            return;
        }
        if let Ok(lock) = lock_file(&self.folder, self.id) {
            *self.lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = lock;
        }
    }

    /// Whether the process with this id is dead. An unknown id counts as dead.
    pub fn is_dead(&self, id: Id) -> bool {
        if id == self.id {
            return false;
        }
        match File::open(self.folder.join(id.to_string())) {
            Ok(file) => match file.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                // When in doubt, alive: running work twice is worse than running it late.
                Err(TryLockError::Error(_)) => false,
            },
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }

    /// Removes the file of a dead process that no longer owns any job.
    pub fn forget(&self, id: Id) {
        if self.is_dead(id) {
            let _ = std::fs::remove_file(self.folder.join(id.to_string()));
        }
    }

    /// Dead processes that left a file, whether or not they owned a job.
    pub fn dead(&self) -> Vec<Id> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| Id::parse(entry.file_name().to_str()?));
        names.filter(|id| self.is_dead(*id)).collect()
    }
}

fn lock_file(folder: &Path, id: Id) -> std::io::Result<File> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Locked before it is renamed into view: an unlocked file means a dead process.
    let hidden = folder.join(format!(".{id}"));
    let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&hidden)?;
    lock.lock()?;
    std::fs::rename(&hidden, folder.join(id.to_string()))?;
    Ok(lock)
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.folder.join(self.id.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{SystemClock, SystemRandom, new_id};

    #[test]
    fn a_process_is_dead_when_its_lock_is_gone() {
        let id = || new_id(&SystemClock, &SystemRandom);
        let folder = std::env::temp_dir().join(format!("toolyard-owner-{}", id()));
        let (me, other) = (Owner::register(&folder, id()).unwrap(), id());
        assert!(me.is_dead(other), "an unknown id");
        let living = Owner::register(&folder, other).unwrap();
        assert!(!me.is_dead(other) && !me.is_dead(me.id) && me.dead().is_empty());
        let file = folder.join("workers").join(other.to_string());
        drop(living);
        assert!(!file.exists());
        // As after kill -9: the file exists, but it is not locked.
        std::fs::write(&file, "").unwrap();
        assert_eq!(me.dead(), [other]);
        me.forget(other);
        assert!(!file.exists());
        // The folder is removed, and comes back.
        std::fs::remove_dir_all(&folder).unwrap();
        me.renew();
        assert!(!folder.exists(), "a removed state folder is not created again");
        std::fs::create_dir(&folder).unwrap();
        let third = Owner::register(&folder, other).unwrap();
        assert!(third.is_dead(me.id));
        me.renew();
        assert!(!third.is_dead(me.id) && third.dead().is_empty());
        drop((me, third));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
