//! Paths of the audit log, and the small files that several processes share.

use super::AuditError;
use rustix::fs::FlockOperation;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use toolyard_protocol::Id;

#[derive(Clone, Debug)]
pub(super) struct Folder {
    state: PathBuf,
    pub segments: PathBuf,
    pub heads: PathBuf,
}

impl Folder {
    pub fn of(state: &Path) -> Folder {
        Folder { state: state.into(), segments: state.join("audit"), heads: state.join("audit-heads") }
    }

    pub fn segment(&self, id: Id) -> PathBuf {
        self.segments.join(format!("{id}.jsonl"))
    }

    pub fn head(&self, id: Id) -> PathBuf {
        self.heads.join(format!("{id}.head"))
    }

    pub fn index(&self) -> PathBuf {
        self.state.join("audit-index.sqlite")
    }

    /// Not the state folder: when it is removed from under a server, nothing runs until it is back.
    pub fn create(&self) -> Result<(), AuditError> {
        for path in [&self.segments, &self.heads] {
            match DirBuilder::new().mode(0o700).create(path) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                    return Err(AuditError::io("create", path, e));
                }
                _ => {}
            }
        }
        self.reserve_latest()
    }

    /// Allocates `latest` now, so that it can be updated when the disk is full.
    fn reserve_latest(&self) -> Result<(), AuditError> {
        let path = self.segments.join("latest");
        let fill = || {
            let file = owner_only().create(true).truncate(false).write(true).open(&path)?;
            lock(&file, Lock::Exclusive)?;
            if file.metadata()?.len() > 0 { Ok(()) } else { file.write_all_at(&[b' '; 37], 0) }
        };
        fill().map_err(|e| AuditError::io("write", &path, e))
    }

    /// The name of a new file is durable only after its folder is synced.
    pub fn sync(&self) -> Result<(), AuditError> {
        for path in [&self.state, &self.segments, &self.heads] {
            File::open(path)
                .and_then(|folder| folder.sync_all())
                .map_err(|e| AuditError::io("sync", path, e))?;
        }
        Ok(())
    }

    /// Ids of the segments, oldest first.
    pub fn segment_ids(&self) -> Result<Vec<Id>, AuditError> {
        ids(&self.segments, ".jsonl")
    }

    pub fn head_ids(&self) -> Result<Vec<Id>, AuditError> {
        ids(&self.heads, ".head")
    }

    /// The segment that was announced last. Falls back to the newest file if a crash left no readable id.
    pub fn latest(&self) -> Result<Option<Id>, AuditError> {
        let path = self.segments.join("latest");
        let mut text = String::new();
        match File::open(&path) {
            Ok(mut file) => {
                lock(&file, Lock::Shared).map_err(|e| AuditError::io("lock", &path, e))?;
                file.read_to_string(&mut text).map_err(|e| AuditError::io("read", &path, e))?;
            }
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(AuditError::io("read", &path, e)),
        }
        match Id::parse(text.trim()) {
            Some(id) => Ok(Some(id)),
            None => Ok(self.segment_ids()?.pop()),
        }
    }

    /// Writes in place: 37 bytes lie in one sector, and a rename would lose the lock.
    pub fn set_latest(&self, id: Id) -> Result<(), AuditError> {
        let path = self.segments.join("latest");
        let set = || {
            let file = owner_only().create(true).truncate(false).write(true).open(&path)?;
            lock(&file, Lock::Exclusive)?;
            file.write_all_at(format!("{id}\n").as_bytes(), 0)?;
            file.sync_data()
        };
        set().map_err(|e| AuditError::io("write", &path, e))
    }

    /// Held by `verify` (shared) and by pruning (exclusive), so that they never overlap.
    pub fn lock_pruning(&self, mode: Lock) -> Result<File, AuditError> {
        let path = self.segments.join("prune.lock");
        let locked = || {
            let file = owner_only().create(true).truncate(false).write(true).open(&path)?;
            lock(&file, mode)?;
            Ok(file)
        };
        locked().map_err(|e| AuditError::io("lock", &path, e))
    }
}

/// Options for a file that only its owner may read.
pub(super) fn owner_only() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

#[derive(Clone, Copy)]
pub(super) enum Lock {
    Shared,
    Exclusive,
    /// Exclusive, or an error at once if it is held elsewhere.
    Try,
}

pub(super) fn lock(file: &File, mode: Lock) -> std::io::Result<()> {
    let operation = match mode {
        Lock::Shared => FlockOperation::LockShared,
        Lock::Exclusive => FlockOperation::LockExclusive,
        Lock::Try => FlockOperation::NonBlockingLockExclusive,
    };
    Ok(rustix::io::retry_on_intr(|| rustix::fs::flock(file, operation))?)
}

fn ids(folder: &Path, suffix: &str) -> Result<Vec<Id>, AuditError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(AuditError::io("list", folder, e)),
    };
    let mut ids = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| AuditError::io("list", folder, e))?;
        let id = entry.file_name().to_str().and_then(|name| Id::parse(name.strip_suffix(suffix)?));
        ids.extend(id);
    }
    ids.sort();
    Ok(ids)
}
