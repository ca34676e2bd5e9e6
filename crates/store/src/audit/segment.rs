//! One segment file while it is written: room set aside ahead, whole records or nothing.

use super::AuditError;
use super::folder::{Folder, Lock, lock, owner_only};
use super::head::{Head, HeadFile};
use super::line::Chain;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use toolyard_protocol::Id;

/// Room is set aside in steps of this size, so that it costs a system call every few hundred calls only.
const STEP: u64 = 256 * 1024;

/// The files of a segment, shared with the syncer. The lock on the segment says that its writer lives.
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
    /// The file has room up to here; `u64::MAX` when the file system cannot set room aside.
    reserved: u64,
    /// A failed write may have left part of a record behind, and cutting it off failed too.
    torn: bool,
}

impl OpenSegment {
    /// The head comes first: a segment without one is then always the work of someone else.
    pub fn create(folder: &Folder, id: Id) -> Result<OpenSegment, AuditError> {
        folder.create()?;
        let head_path = folder.head(id);
        let head = HeadFile::create(&head_path, id).map_err(|e| {
            // A head that was half written says nothing; it must not look like a damaged one.
            discard(&head_path, &e);
            AuditError::io("create", &head_path, e)
        })?;
        let path = folder.segment(id);
        let made = owner_only().append(true).create_new(true).open(&path).and_then(|file| {
            // Waits at most for someone who asks whether this segment is live.
            lock(&file, Lock::Exclusive)?;
            Ok(file)
        });
        let segment = made.map_err(|e| {
            discard(&path, &e);
            let _ = fs::remove_file(&head_path);
            AuditError::io("create", &path, e)
        })?;
        let files =
            SegmentFiles { id, path, segment, head: Mutex::new(head), announced: AtomicBool::new(false) };
        Ok(OpenSegment { files: Arc::new(files), chain: Chain::START, length: 0, reserved: 0, torn: false })
    }

    /// How far the segment reaches now.
    pub fn head(&self) -> Head {
        Head { records: self.chain.next, length: self.length, hash: self.chain.hash }
    }

    /// Makes sure that the file can grow to `end` bytes.
    pub fn reserve(&mut self, end: u64) -> Result<(), AuditError> {
        if end <= self.reserved {
            return Ok(());
        }
        // Near the end of the disk the exact need may fit where a step ahead does not.
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
            Err(e) => Err(AuditError::io("set room aside in", &self.files.path, e)),
        }
    }

    #[cfg(target_os = "linux")]
    fn grow(&mut self, end: u64) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let (from, more) = (self.reserved as libc::off_t, (end - self.reserved) as libc::off_t);
        loop {
            // SAFETY: the descriptor is open for as long as `files` lives.
            let done = unsafe {
                libc::fallocate(self.files.segment.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, from, more)
            };
            if done == 0 {
                self.reserved = end;
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn grow(&mut self, _end: u64) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }

    /// Appends whole records with as few writes as the system allows; on failure none of them is left.
    pub fn write(&mut self, lines: &[u8]) -> Result<(), AuditError> {
        self.truncate_torn()?;
        if let Err(e) = (&self.files.segment).write_all(lines) {
            self.torn = true;
            // A second failure is kept in `torn` and met again by the next write.
            let _ = self.truncate_torn();
            return Err(AuditError::io("write", &self.files.path, e));
        }
        self.length += lines.len() as u64;
        Ok(())
    }

    /// Cuts off what a failed write left behind.
    fn truncate_torn(&mut self) -> Result<(), AuditError> {
        if self.torn {
            let cut = self.files.segment.set_len(self.length);
            cut.map_err(|e| AuditError::io("cut a half-written record off", &self.files.path, e))?;
            self.torn = false;
            // Cutting also gave back what was set aside.
            self.reserved = self.reserved.min(self.length);
        }
        Ok(())
    }

    /// Removes the files of a segment that never got its first record.
    pub fn abandon(self, folder: &Folder) {
        let _ = fs::remove_file(&self.files.path);
        let _ = fs::remove_file(folder.head(self.files.id));
    }

    /// Gives back the room that was set aside and not used.
    pub fn trim(&mut self) {
        // Only a matter of disk space: the length is what it was, so a failure changes nothing.
        let _ = self.files.segment.set_len(self.length);
    }
}

/// Removes a file that could not be made, unless the reason is that it is someone else's.
fn discard(path: &Path, why: &io::Error) {
    if why.kind() != io::ErrorKind::AlreadyExists {
        let _ = fs::remove_file(path);
    }
}
