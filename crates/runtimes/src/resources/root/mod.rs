//! One folder that clients may read, and change where its owner allows it. Its descriptor is held open: what happens to
//! the path that led to it later changes nothing.

mod change;
#[cfg(test)]
mod escapes;
mod walk;

use super::address::FilePath;
use crate::beneath::{self, Walk};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub struct Root {
    pub name: String,
    pub may: May,
    folder: OwnedFd,
    /// Whoever owns the folder may have files with several names in it; others may not.
    owner: u32,
    /// Never entered, wherever it lies.
    state: PathBuf,
    /// The largest file that is read or written.
    max_bytes: u64,
}

/// What may be done besides reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct May {
    pub write: bool,
    pub delete: bool,
}

/// Why a file is not given out.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    #[error("it is not there")]
    Missing,
    #[error("it is a folder")]
    Folder,
    #[error("it is a device, a pipe or a socket, not a file")]
    NotRegular,
    #[error("a link stands in its path, and links are not followed")]
    Link,
    #[error("it lies on another file system than its root")]
    OtherMount,
    #[error("it has another owner than its root, and other names elsewhere")]
    OtherOwner,
    #[error("the server may not open it")]
    Denied,
    #[error("it has {size} bytes; at most {max} are given or taken")]
    TooLarge { size: u64, max: u64 },
    #[error("this system has no openat2 (Linux 5.6), without which no file is opened")]
    Unsupported,
    #[error("{0}")]
    Io(io::Error),
}

impl Root {
    pub fn open(name: &str, path: &Path, state: &Path, may: May, max_bytes: u64) -> Result<Root, RootError> {
        let mut options = std::fs::OpenOptions::new();
        let folder = options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_PATH).open(path);
        let folder = OwnedFd::from(folder.map_err(RootError::of)?);
        // Asks the kernel once, so that a missing call is told at the start and not at the first read.
        let probe =
            beneath::open(folder.as_fd(), ".", beneath::FOLDER, Walk::Plain).map_err(RootError::of)?;
        let owner = File::from(probe).metadata().map_err(RootError::of)?.uid();
        Ok(Root { name: name.to_owned(), may, folder, owner, state: state.to_owned(), max_bytes })
    }

    /// The content of a file.
    pub fn read(&self, path: &FilePath) -> Result<Vec<u8>, RootError> {
        let (folders, name) = path.split();
        let folder = self.folder(folders, Absent::Fails)?;
        let fd = beneath::open(folder.as_fd(), name, beneath::READ, Walk::Plain).map_err(RootError::of)?;
        let file = File::from(fd);
        // By what was opened, not by its name: the name may lead elsewhere by now.
        let meta = file.metadata().map_err(RootError::of)?;
        self.admit(&meta)?;
        self.fits(meta.len())?;
        let mut bytes = Vec::with_capacity(meta.len() as usize);
        // It may have grown since.
        file.take(self.max_bytes + 1).read_to_end(&mut bytes).map_err(RootError::of)?;
        self.fits(bytes.len() as u64)?;
        Ok(bytes)
    }

    /// What is known about a file that could be read.
    pub fn look(&self, path: &FilePath) -> Result<Metadata, RootError> {
        let (folders, name) = path.split();
        self.look_in(self.folder(folders, Absent::Fails)?.as_fd(), name)
    }

    fn look_in(&self, folder: BorrowedFd<'_>, name: &str) -> Result<Metadata, RootError> {
        let fd = beneath::open(folder, name, beneath::LOOK, Walk::Plain).map_err(RootError::of)?;
        let meta = File::from(fd).metadata().map_err(RootError::of)?;
        self.admit(&meta)?;
        Ok(meta)
    }

    /// Whether a file may be given out. A name that someone else gave to a file elsewhere is no way to it.
    fn admit(&self, meta: &Metadata) -> Result<(), RootError> {
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

    fn fits(&self, size: u64) -> Result<(), RootError> {
        let max = self.max_bytes;
        if size > max { Err(RootError::TooLarge { size, max }) } else { Ok(()) }
    }

    /// A folder below the root, entered name by name.
    pub fn folder(&self, names: &[String], absent: Absent) -> Result<OwnedFd, RootError> {
        let mut folder = self.folder.try_clone().map_err(RootError::of)?;
        let state = self.state();
        for name in names {
            folder = self.enter(folder.as_fd(), name, absent, state)?;
        }
        Ok(folder)
    }

    fn enter(
        &self,
        folder: BorrowedFd<'_>,
        name: &str,
        absent: Absent,
        state: Option<Identity>,
    ) -> Result<OwnedFd, RootError> {
        let open = || beneath::open(folder, name, beneath::FOLDER, Walk::Plain);
        let mut opened = open();
        if absent == Absent::IsMade
            && let Err(error) = &opened
            && error.raw_os_error() == Some(libc::ENOENT)
        {
            match beneath::make_folder(folder, name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(RootError::of(error));
                }
                // A file is only as safe as the names that lead to it.
                _ => opened = change::sync_folder(folder).and_then(|()| open()),
            }
        }
        let inner = File::from(opened.map_err(RootError::of)?);
        if state.is_some() && state == inner.metadata().ok().map(|meta| identity(&meta)) {
            return Err(RootError::Missing);
        }
        Ok(inner.into())
    }

    /// Asked each time: the state folder is made when it is first needed.
    fn state(&self) -> Option<Identity> {
        std::fs::metadata(&self.state).ok().map(|meta| identity(&meta))
    }
}

/// What to do about a folder that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    Fails,
    IsMade,
}

/// A folder, whatever its name.
type Identity = (u64, u64);

fn identity(meta: &Metadata) -> Identity {
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
