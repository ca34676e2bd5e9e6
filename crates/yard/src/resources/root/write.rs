//! Writing and removing files of a root. A reader sees the old content or the new one, never a part.

use super::{IfMissing, Root, RootError};
use crate::resources::file_uri::FilePath;
use rustix::fs::OFlags;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use toolyard_engine::clock::{Random, SystemRandom};
use toolyard_runtimes::beneath::{self, LinkPolicy};

impl Root {
    /// Replaces the content of a file, or creates the file and its folders. On disk when this returns.
    pub fn write(&self, path: &FilePath, bytes: &[u8]) -> Result<(), RootError> {
        self.check_size(bytes.len() as u64)?;
        let (folders, name) = path.split();
        let folder = self.folder(folders, IfMissing::Create)?;
        let mode = match self.metadata_in(folder.as_fd(), name) {
            Ok(meta) => meta.permissions().mode() & 0o777,
            Err(RootError::Missing) => 0o644,
            Err(error) => return Err(error),
        };
        let temporary = temporary_name();
        let written = self.fill(folder.as_fd(), &temporary, bytes, mode).and_then(|()| {
            beneath::rename(folder.as_fd(), &temporary, name)?;
            sync_folder(folder.as_fd())
        });
        if written.is_err() {
            // Already renamed when only the sync failed.
            let _ = beneath::unlink(folder.as_fd(), &temporary);
        }
        written.map_err(RootError::of)
    }

    pub fn delete(&self, path: &FilePath) -> Result<(), RootError> {
        let (folders, name) = path.split();
        let folder = self.folder(folders, IfMissing::Fail)?;
        self.metadata_in(folder.as_fd(), name)?;
        beneath::unlink(folder.as_fd(), name).map_err(RootError::of)?;
        sync_folder(folder.as_fd()).map_err(RootError::of)
    }

    fn fill(&self, folder: BorrowedFd<'_>, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
        let mut file = File::from(beneath::open(folder, name, beneath::CREATE, LinkPolicy::Refuse)?);
        file.write_all(bytes)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    }
}

/// Hidden, so that no list shows it and no URI names it.
fn temporary_name() -> String {
    let mut random = [0; 8];
    SystemRandom.fill(&mut random);
    format!(".toolyard-{:016x}", u64::from_ne_bytes(random))
}

/// Without it the name may be lost in a crash, though the content is safe.
pub(super) fn sync_folder(folder: BorrowedFd<'_>) -> io::Result<()> {
    File::from(beneath::open(folder, ".", beneath::READ | OFlags::DIRECTORY, LinkPolicy::Refuse)?).sync_all()
}
