//! A folder that clients may read, and change where its owner allows it. It is accessed through an open
//! descriptor, so that later changes of its path have no effect.

#[cfg(test)]
mod escapes;
mod walk;
mod write;

use super::file_uri::FilePath;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use toolyard_runtimes::beneath::{self, LinkPolicy};

pub struct Root {
    pub name: String,
    pub access: RootAccess,
    folder: OwnedFd,
    /// The folder's owner; files of other owners must have a single hard link.
    owner: u32,
    /// Never entered, even if it is below the root.
    state: PathBuf,
    /// The largest file that is read or written.
    max_bytes: SizeLimit,
}

/// A number of bytes that can be changed while it is in use; clones share it.
#[derive(Clone)]
pub struct SizeLimit(Arc<AtomicU64>);

impl SizeLimit {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

impl From<u64> for SizeLimit {
    fn from(bytes: u64) -> SizeLimit {
        SizeLimit(Arc::new(bytes.into()))
    }
}

/// Permissions besides reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootAccess {
    pub write: bool,
    pub delete: bool,
}

/// Why a file cannot be accessed.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    #[error("it does not exist")]
    Missing,
    #[error("it is a folder")]
    Folder,
    #[error("it is a device, a pipe or a socket, not a file")]
    NotRegular,
    #[error("its path contains a symbolic link, and links are not followed")]
    Link,
    #[error("it is on another file system than its root")]
    OtherMount,
    #[error("it has another owner than its root, and several hard links")]
    OtherOwner,
    #[error("the server has no permission to open it")]
    Denied,
    #[error("it has {size} bytes; the limit is {max}")]
    TooLarge { size: u64, max: u64 },
    #[error("this kernel has no openat2; Linux 5.6 or newer is required")]
    Unsupported,
    #[error("{0}")]
    Io(io::Error),
}

impl Root {
    pub fn open(
        name: &str,
        path: &Path,
        state: &Path,
        access: RootAccess,
        max_bytes: impl Into<SizeLimit>,
    ) -> Result<Root, RootError> {
        let mut options = std::fs::OpenOptions::new();
        let folder = options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_PATH).open(path);
        let folder = OwnedFd::from(folder.map_err(RootError::of)?);
        // Probes openat2, so that a missing system call is reported at the start and not at the first read.
        let probe =
            beneath::open(folder.as_fd(), ".", beneath::FOLDER, LinkPolicy::Refuse).map_err(RootError::of)?;
        let owner = File::from(probe).metadata().map_err(RootError::of)?.uid();
        let (name, state, max_bytes) = (name.to_owned(), state.to_owned(), max_bytes.into());
        Ok(Root { name, access, folder, owner, state, max_bytes })
    }

    /// The content of a file.
    pub fn read(&self, path: &FilePath) -> Result<Vec<u8>, RootError> {
        let (folders, name) = path.split();
        let folder = self.folder(folders, IfMissing::Fail)?;
        let fd =
            beneath::open(folder.as_fd(), name, beneath::READ, LinkPolicy::Refuse).map_err(RootError::of)?;
        let file = File::from(fd);
        // Of the open file, not by its name, which may refer to another file by now.
        let meta = file.metadata().map_err(RootError::of)?;
        self.check_readable(&meta)?;
        self.check_size(meta.len())?;
        let mut bytes = Vec::with_capacity(meta.len() as usize);
        // It may have grown since.
        file.take(self.max_bytes.get() + 1).read_to_end(&mut bytes).map_err(RootError::of)?;
        self.check_size(bytes.len() as u64)?;
        Ok(bytes)
    }

    /// The metadata of a file that may be accessed.
    pub fn metadata(&self, path: &FilePath) -> Result<Metadata, RootError> {
        let (folders, name) = path.split();
        self.metadata_in(self.folder(folders, IfMissing::Fail)?.as_fd(), name)
    }

    fn metadata_in(&self, folder: BorrowedFd<'_>, name: &str) -> Result<Metadata, RootError> {
        let fd =
            beneath::open(folder, name, beneath::PATH_ONLY, LinkPolicy::Refuse).map_err(RootError::of)?;
        let meta = File::from(fd).metadata().map_err(RootError::of)?;
        self.check_readable(&meta)?;
        Ok(meta)
    }

    /// Whether a file may be accessed. A hard link must not expose another owner's file from elsewhere.
    fn check_readable(&self, meta: &Metadata) -> Result<(), RootError> {
        if meta.is_dir() {
            return Err(RootError::Folder);
        }
        if !meta.is_file() {
            return Err(RootError::NotRegular);
        }
        if meta.nlink() > 1 && meta.uid() != self.owner {
            return Err(RootError::OtherOwner);
        }
        Ok(())
    }

    fn check_size(&self, size: u64) -> Result<(), RootError> {
        let max = self.max_bytes.get();
        if size > max { Err(RootError::TooLarge { size, max }) } else { Ok(()) }
    }

    /// A folder below the root, entered name by name.
    pub fn folder(&self, names: &[String], if_missing: IfMissing) -> Result<OwnedFd, RootError> {
        let mut folder = self.folder.try_clone().map_err(RootError::of)?;
        let state = self.state();
        for name in names {
            folder = self.open_subfolder(folder.as_fd(), name, if_missing, state)?;
        }
        Ok(folder)
    }

    fn open_subfolder(
        &self,
        folder: BorrowedFd<'_>,
        name: &str,
        if_missing: IfMissing,
        state: Option<FileId>,
    ) -> Result<OwnedFd, RootError> {
        let open = || beneath::open(folder, name, beneath::FOLDER, LinkPolicy::Refuse);
        let mut opened = open();
        if if_missing == IfMissing::Create
            && let Err(error) = &opened
            && error.raw_os_error() == Some(libc::ENOENT)
        {
            match beneath::make_folder(folder, name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(RootError::of(error));
                }
                // The new folder must be on disk before a file in it is.
                _ => opened = write::sync_folder(folder).and_then(|()| open()),
            }
        }
        let inner = File::from(opened.map_err(RootError::of)?);
        if state.is_some() && state == inner.metadata().ok().map(|meta| file_id(&meta)) {
            return Err(RootError::Missing);
        }
        Ok(inner.into())
    }

    /// Looked up each time: the state folder is created when it is first needed.
    fn state(&self) -> Option<FileId> {
        std::fs::metadata(&self.state).ok().map(|meta| file_id(&meta))
    }
}

/// What to do about a missing folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    Fail,
    Create,
}

/// Device and inode, which identify a folder whatever its name.
type FileId = (u64, u64);

fn file_id(meta: &Metadata) -> FileId {
    (meta.dev(), meta.ino())
}

impl RootError {
    pub fn of(error: io::Error) -> RootError {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG) => RootError::Missing,
            Some(libc::EISDIR) => RootError::Folder,
            Some(libc::ENXIO | libc::ENODEV) => RootError::NotRegular,
            Some(libc::ELOOP) => RootError::Link,
            Some(libc::EXDEV) => RootError::OtherMount,
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => RootError::Denied,
            Some(libc::ENOSYS) => RootError::Unsupported,
            _ => RootError::Io(error),
        }
    }
}
