//! The database file as a name in a folder: SQLite goes on writing to a file that was removed, without an error.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use toolyard_engine::stores::StoreError;

/// The file that a connection has open.
pub struct DatabaseFile {
    pub path: PathBuf,
    /// Device and inode.
    opened: (u64, u64),
}

/// What the name refers to now.
pub enum Found {
    /// The open file.
    Same,
    /// Another file, or none yet in a folder that exists: it must be opened again.
    Other,
}

impl DatabaseFile {
    pub fn of(path: &Path) -> Result<DatabaseFile, StoreError> {
        let opened = identity(path).ok_or_else(|| gone(path))?;
        Ok(DatabaseFile { path: path.to_owned(), opened })
    }

    /// An error while the state folder is gone.
    pub fn find(&self) -> Result<Found, StoreError> {
        match identity(&self.path) {
            Some(found) if found == self.opened => Ok(Found::Same),
            None if !self.path.parent().is_some_and(Path::is_dir) => Err(gone(&self.path)),
            _ => Ok(Found::Other),
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn gone(path: &Path) -> StoreError {
    let folder = path.parent().unwrap_or(path).display();
    StoreError::Broken(format!("the state folder {folder} was removed while the server was running"))
}
