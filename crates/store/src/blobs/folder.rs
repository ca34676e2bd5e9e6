//! The folder of the store: files are opened relative to a folder handle, and no symbolic link is followed.

use super::BlobError;
use std::ffi::CString;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use toolyard_protocol::Hash;

pub(super) struct Folder {
    pub path: PathBuf,
    root: Dir,
    pub temps: Dir,
    /// Shards whose folder entry is known to be durable.
    durable: [AtomicBool; 256],
}

impl Folder {
    pub fn open(path: &Path) -> Result<Folder, BlobError> {
        let make = || {
            DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            let root = Dir(File::open(path)?);
            let temps = root.sub("tmp", true)?.ok_or(io::ErrorKind::NotFound)?;
            root.sync()?;
            if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
                File::open(above)?.sync_all()?;
            }
            Ok((root, temps))
        };
        let (root, temps) = make().map_err(|e| BlobError::io(&format!("open {}", path.display()), e))?;
        Ok(Folder { path: path.into(), root, temps, durable: [const { AtomicBool::new(false) }; 256] })
    }

    /// Opens a file beside the shards, created if it is missing.
    pub fn open_sibling(&self, name: &str) -> Result<File, BlobError> {
        let flags = libc::O_RDWR | libc::O_CREAT;
        self.root.open(name, flags).map_err(|e| BlobError::io(&format!("open {name}"), e))
    }

    /// Opens a shard; `None` if nothing was ever stored in it.
    pub fn shard(&self, number: u8) -> Result<Option<Dir>, BlobError> {
        let name = shard_name(number);
        self.root.sub(&name, false).map_err(|e| BlobError::io(&format!("open {name}"), e))
    }

    /// Opens a shard, created durably if it is missing.
    pub fn create_shard(&self, number: u8) -> Result<Dir, BlobError> {
        let name = shard_name(number);
        let make = || {
            let shard = self.root.sub(&name, true)?.ok_or(io::ErrorKind::NotFound)?;
            let durable = &self.durable[usize::from(number)];
            if !durable.load(Ordering::Relaxed) {
                // Another process may have created it without syncing yet, so each process syncs once.
                self.root.sync()?;
                durable.store(true, Ordering::Relaxed);
            }
            Ok(shard)
        };
        make().map_err(|e| BlobError::io(&format!("create {name}"), e))
    }

    pub fn shard_path(&self, number: u8) -> PathBuf {
        self.path.join(shard_name(number))
    }
}

/// Names of the two files of a blob within its shard.
pub(super) struct BlobFileNames {
    pub shard: u8,
    pub data: String,
    pub tree: String,
}

impl BlobFileNames {
    pub fn of(hash: &Hash) -> BlobFileNames {
        let rest = &hash.hex()[2..];
        BlobFileNames {
            shard: hash.as_bytes()[0],
            data: format!("{rest}.blob"),
            tree: format!("{rest}.tree"),
        }
    }

    /// Path of the data file within the store, for messages.
    pub fn display_path(&self) -> String {
        format!("{}/{}", shard_name(self.shard), self.data)
    }
}

/// A file in a shard, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShardFile {
    Data(Hash),
    Tree(Hash),
}

impl ShardFile {
    /// `None` for a name that does not belong to the store.
    pub fn parse(shard: u8, name: &str) -> Option<ShardFile> {
        let (rest, suffix) = name.split_once('.')?;
        let hash = Hash::parse(&format!("{}{rest}", shard_name(shard)))?;
        match suffix {
            "blob" => Some(ShardFile::Data(hash)),
            "tree" => Some(ShardFile::Tree(hash)),
            _ => None,
        }
    }
}

/// An open folder.
pub(super) struct Dir(File);

impl Dir {
    /// Opens a subfolder, optionally creating it.
    fn sub(&self, name: &str, create: bool) -> io::Result<Option<Dir>> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        match self.open(name, flags) {
            Ok(file) => Ok(Some(Dir(file))),
            Err(e) if e.kind() == io::ErrorKind::NotFound && create => {
                let name_c = c_name(name)?;
                // SAFETY: an open descriptor and a string that outlives the call.
                let created = unsafe { libc::mkdirat(self.0.as_raw_fd(), name_c.as_ptr(), 0o700) };
                match cvt(created) {
                    Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
                    _ => self.open(name, flags).map(|file| Some(Dir(file))),
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Opens a regular file for reading. Anything else, including a symbolic link, is `InvalidData`.
    pub fn file(&self, name: &str) -> io::Result<Option<File>> {
        // O_NONBLOCK: opening a planted FIFO must not block.
        let file = match self.open(name, libc::O_RDONLY | libc::O_NONBLOCK) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ELOOP | libc::ENXIO | libc::ENODEV)) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
            Err(e) => return Err(e),
        };
        if file.metadata()?.is_file() { Ok(Some(file)) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// Creates a file that only its owner may read.
    pub fn create(&self, name: &str) -> io::Result<File> {
        self.open(name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)
    }

    /// Renames a file, replacing an existing one.
    pub fn rename(&self, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        let (name, new) = (c_name(name)?, c_name(new)?);
        // SAFETY: open descriptors and strings that outlive the call.
        cvt(unsafe { libc::renameat(self.0.as_raw_fd(), name.as_ptr(), to.0.as_raw_fd(), new.as_ptr()) })
    }

    /// Removes a file; returns whether it existed.
    pub fn remove(&self, name: &str) -> io::Result<bool> {
        let name = c_name(name)?;
        // SAFETY: an open descriptor and a string that outlives the call.
        match cvt(unsafe { libc::unlinkat(self.0.as_raw_fd(), name.as_ptr(), 0) }) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// A name in a folder is durable only after the folder is synced.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn open(&self, name: &str, flags: libc::c_int) -> io::Result<File> {
        let name = c_name(name)?;
        let flags = flags | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: an open descriptor and a string that outlives the call; a new descriptor is ours alone.
        unsafe {
            let opened = libc::openat(self.0.as_raw_fd(), name.as_ptr(), flags, 0o600);
            cvt(opened)?;
            Ok(File::from_raw_fd(opened))
        }
    }
}

fn shard_name(number: u8) -> String {
    format!("{number:02x}")
}

fn c_name(name: &str) -> io::Result<CString> {
    CString::new(name).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn cvt(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
