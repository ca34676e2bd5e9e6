//! The blocking side of storing: turns complete temporary files into durable blobs.

use super::folder::{BlobFileNames, Dir, Folder};
use super::pins::{Pin, Pins};
use super::temp::{self, Temp};
use super::tree::{Builder, GROUP};
use super::{BlobError, StoredBlob};
use crate::faults::{Fault, Faults};
use bytes::Bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use toolyard_protocol::Hash;

/// Size of one read or write, and the largest piece that a reader returns.
pub(super) const PIECE: usize = 4 * GROUP as usize;

pub(super) struct Store {
    pub folder: Arc<Folder>,
    faults: Arc<dyn Faults>,
    pins: Arc<Pins>,
}

impl Store {
    pub fn open(path: &Path, faults: Arc<dyn Faults>) -> Result<Arc<Store>, BlobError> {
        let folder = Arc::new(Folder::open(path)?);
        temp::sweep(&folder)?;
        let pins = Pins::new(folder.open_sibling("pins")?)?;
        Ok(Arc::new(Store { folder, pins, faults }))
    }

    pub fn pin(&self, hash: &Hash) -> Pin {
        self.pins.pin(hash)
    }

    /// Fault injection point for tests.
    pub fn fault_point(&self, point: &'static str) -> Result<(), BlobError> {
        match self.faults.at(point) {
            Fault::None => Ok(()),
            // A real crash: no destructor runs, and the kernel releases the locks.
            Fault::Crash => std::process::abort(),
            Fault::Fail => Err(BlobError::Io(format!("continue: injected failure at {point}"))),
        }
    }

    /// The data file; `NotFound` if there is none, `Damaged` if it is not a regular file.
    pub fn data(&self, hash: &Hash) -> Result<File, BlobError> {
        let names = BlobFileNames::of(hash);
        let found = match self.folder.shard(names.shard)? {
            Some(shard) => shard.file(&names.data),
            None => Ok(None),
        };
        match found {
            Ok(Some(file)) => Ok(file),
            Ok(None) => Err(BlobError::NotFound { hash: *hash }),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                Err(BlobError::Damaged { hash: *hash, at: 0 })
            }
            Err(e) => Err(BlobError::io(&format!("open {}", names.display_path()), e)),
        }
    }

    /// Stores bytes in memory. An existing blob is not written again.
    pub fn put(&self, bytes: &Bytes) -> Result<StoredBlob, BlobError> {
        let (mut builder, mut nodes) = (Builder::new(), Vec::new());
        builder.update(bytes, &mut nodes);
        let (hash, size) = builder.finish(&mut nodes);
        let stored = StoredBlob { hash, size };
        let _pin = self.pin(&hash);
        let shard = self.folder.create_shard(BlobFileNames::of(&hash).shard)?;
        if self.renew_existing(&shard, &stored)? {
            return Ok(stored);
        }
        let data = self.write_temp(bytes)?;
        let tree = if nodes.is_empty() { None } else { Some(self.write_temp(&nodes)?) };
        self.publish(&shard, &stored, data, tree)?;
        Ok(stored)
    }

    /// Turns temporary files into a blob.
    pub fn commit_temps(&self, stored: &StoredBlob, data: Temp, tree: Option<Temp>) -> Result<(), BlobError> {
        // Pinned, so that no collector removes the blob that is found or published below.
        let _pin = self.pin(&stored.hash);
        let shard = self.folder.create_shard(BlobFileNames::of(&stored.hash).shard)?;
        if self.renew_existing(&shard, stored)? {
            return Ok(());
        }
        self.publish(&shard, stored, data, tree)
    }

    /// A new temporary file with these bytes.
    pub fn write_temp(&self, bytes: &[u8]) -> Result<Temp, BlobError> {
        let mut temp = Temp::create(&self.folder)?;
        self.fault_point("blob.created")?;
        temp.write(bytes)?;
        self.fault_point("blob.written")?;
        Ok(temp)
    }

    /// Whether the blob exists and is intact; if so, makes it durable and resets its age.
    ///
    /// The content is verified, because it must be readable afterwards; a damaged file is replaced.
    fn renew_existing(&self, shard: &Dir, stored: &StoredBlob) -> Result<bool, BlobError> {
        let names = BlobFileNames::of(&stored.hash);
        let Ok(Some(file)) = shard.file(&names.data) else { return Ok(false) };
        if !is_whole(&file, stored) {
            return Ok(false);
        }
        self.fault_point("blob.found")?;
        let renew = || {
            file.set_modified(SystemTime::now())?;
            file.sync_all()?;
            shard.sync()
        };
        renew().map_err(|e| BlobError::io(&format!("renew {}", names.display_path()), e))?;
        self.fault_point("blob.renewed")?;
        Ok(true)
    }

    fn publish(
        &self,
        shard: &Dir,
        stored: &StoredBlob,
        data: Temp,
        tree: Option<Temp>,
    ) -> Result<(), BlobError> {
        let names = BlobFileNames::of(&stored.hash);
        data.sync()?;
        self.fault_point("blob.synced")?;
        if let Some(tree) = tree {
            tree.sync()?;
            self.fault_point("blob.tree_synced")?;
            // First, so that a blob is never visible without its tree; a stray tree is collected later.
            tree.persist(shard, &names.tree)?;
            self.fault_point("blob.tree_placed")?;
        }
        data.persist(shard, &names.data)?;
        self.fault_point("blob.placed")?;
        shard.sync().map_err(|e| BlobError::io(&format!("sync {}", names.display_path()), e))?;
        self.fault_point("blob.durable")
    }
}

fn is_whole(file: &File, stored: &StoredBlob) -> bool {
    if !file.metadata().is_ok_and(|data| data.len() == stored.size) {
        return false;
    }
    let found = hash_file(file, stored.size, |_| Ok(()));
    found.is_ok_and(|hash| hash == Some(stored.hash))
}

/// Hashes a file in constant memory and passes the nodes of its tree to `nodes_to`. `None` if the file is
/// shorter than `size`.
pub(super) fn hash_file(
    file: &File,
    size: u64,
    mut nodes_to: impl FnMut(&[u8]) -> Result<(), BlobError>,
) -> Result<Option<Hash>, BlobError> {
    let (mut builder, mut nodes) = (Builder::new(), Vec::new());
    let mut piece = vec![0; PIECE.min(size as usize)];
    let mut at = 0;
    while at < size {
        let now = (size - at).min(PIECE as u64) as usize;
        match file.read_exact_at(&mut piece[..now], at) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(e) => return Err(BlobError::io("read a blob", e)),
        }
        builder.update(&piece[..now], &mut nodes);
        at += now as u64;
        nodes_to(&nodes)?;
        nodes.clear();
    }
    let (hash, _) = builder.finish(&mut nodes);
    nodes_to(&nodes)?;
    Ok(Some(hash))
}
