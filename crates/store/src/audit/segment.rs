//! The segment file being written: space is reserved ahead, and a failed write leaves no partial record.

use super::AuditError;
use super::folder::{Folder, Lock, lock, owner_only};
use super::head::{Head, HeadFile};
use super::record::Chain;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use toolyard_protocol::Id;

/// Space is reserved in steps of this size, so that it takes one system call per few hundred calls.
const STEP: u64 = 256 * 1024;

/// The files of a segment, shared with the syncer. The segment is locked as long as its writer is alive.
pub(super) struct SegmentFiles {
    pub id: Id,
    pub path: PathBuf,
    pub segment: File,
    pub head: Mutex<HeadFile>,
    /// Whether the folders were synced and `latest` names this segment.
    pub announced: AtomicBool,
}

/// The segment being appended to.
pub(super) struct OpenSegment {
    pub files: Arc<SegmentFiles>,
    pub chain: Chain,
    pub length: u64,
    /// Space is reserved up to this offset; `u64::MAX` if the file system cannot reserve space.
    reserved: u64,
    /// A failed write may have left a partial record, and truncating it failed too.
    torn: bool,
}

impl OpenSegment {
    /// The head is created first, so that no crash leaves a segment without one.
    pub fn create(folder: &Folder, id: Id) -> Result<OpenSegment, AuditError> {
        folder.create()?;
        let head_path = folder.head(id);
        let head = HeadFile::create(&head_path, id).map_err(|e| {
            // A partially written head must not look like a damaged one.
            discard(&head_path, &e);
            AuditError::io("create", &head_path, e)
        })?;
        let path = folder.segment(id);
        let created = owner_only().append(true).create_new(true).open(&path).and_then(|file| {
            // Waits at most for a process that checks whether this segment is live.
            lock(&file, Lock::Exclusive)?;
            Ok(file)
        });
        let segment = created.map_err(|e| {
            discard(&path, &e);
            let _ = fs::remove_file(&head_path);
            AuditError::io("create", &path, e)
        })?;
        let files =
            SegmentFiles { id, path, segment, head: Mutex::new(head), announced: AtomicBool::new(false) };
        Ok(OpenSegment { files: Arc::new(files), chain: Chain::START, length: 0, reserved: 0, torn: false })
    }

    /// Whether the file was removed, so that nothing written to it could be read again.
    pub fn is_removed(&self) -> bool {
        rustix::fs::fstat(&self.files.segment).is_ok_and(|file| file.st_nlink == 0)
    }

    /// How far the segment reaches now.
    pub fn head(&self) -> Head {
        Head { records: self.chain.next, length: self.length, hash: self.chain.hash }
    }

    /// Reserves space up to `end` bytes.
    pub fn reserve(&mut self, end: u64) -> Result<(), AuditError> {
        if end <= self.reserved {
            return Ok(());
        }
        // On a nearly full disk the exact size may fit where a whole step does not.
        let grown = self.grow(end + STEP).or_else(|e| match e.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => self.grow(end),
            _ => Err(e),
        });
        match grown {
            Ok(()) => Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL)) => {
                self.reserved = u64::MAX;
                Ok(())
            }
            Err(e) => Err(AuditError::io("reserve space in", &self.files.path, e)),
        }
    }

    #[cfg(target_os = "linux")]
    fn grow(&mut self, end: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        let (from, more) = (self.reserved, end - self.reserved);
        rustix::io::retry_on_intr(|| fallocate(&self.files.segment, FallocateFlags::KEEP_SIZE, from, more))?;
        self.reserved = end;
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn grow(&mut self, _end: u64) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }

    /// Appends whole records; on failure none of them is left in the file.
    pub fn write(&mut self, lines: &[u8]) -> Result<(), AuditError> {
        self.truncate_torn()?;
        if let Err(e) = (&self.files.segment).write_all(lines) {
            self.torn = true;
            // If this fails too, `torn` stays set and the next write tries again.
            let _ = self.truncate_torn();
            return Err(AuditError::io("write", &self.files.path, e));
        }
        self.length += lines.len() as u64;
        Ok(())
    }

    /// Truncates what a failed write left behind.
    fn truncate_torn(&mut self) -> Result<(), AuditError> {
        if self.torn {
            let cut = self.files.segment.set_len(self.length);
            cut.map_err(|e| AuditError::io("remove a partial record from", &self.files.path, e))?;
            self.torn = false;
            // Truncating also released the reserved space.
            self.reserved = self.reserved.min(self.length);
        }
        Ok(())
    }

    /// Removes the files of a segment that never got its first record.
    pub fn abandon(self, folder: &Folder) {
        let _ = fs::remove_file(&self.files.path);
        let _ = fs::remove_file(folder.head(self.files.id));
    }

    /// Releases reserved space that was not used.
    pub fn trim(&mut self) {
        // The length does not change, so a failure only wastes disk space.
        let _ = self.files.segment.set_len(self.length);
    }
}

/// Removes a file that could not be created, unless it existed before.
fn discard(path: &Path, why: &io::Error) {
    if why.kind() != io::ErrorKind::AlreadyExists {
        let _ = fs::remove_file(path);
    }
}
