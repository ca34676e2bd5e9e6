//! The folder of the store: files are opened relative to a folder handle, and no symbolic link is followed.

use super::BlobError;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{DirBuilder, File};
use std::io;
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
        let flags = OFlags::RDWR | OFlags::CREATE;
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
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match self.open(name, flags) {
            Ok(file) => Ok(Some(Dir(file))),
            Err(e) if e.kind() == io::ErrorKind::NotFound && create => {
                match rustix::fs::mkdirat(&self.0, name, Mode::RWXU) {
                    Err(e) if e != Errno::EXIST => Err(e.into()),
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
        let file = match self.open(name, OFlags::RDONLY | OFlags::NONBLOCK) {
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
        self.open(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    /// Renames a file, replacing an existing one.
    pub fn rename(&self, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, name, &to.0, new)?)
    }

    /// Removes a file; returns whether it existed.
    pub fn remove(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// A name in a folder is durable only after the folder is synced.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn open(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?))
    }
}

fn shard_name(number: u8) -> String {
    format!("{number:02x}")
}
