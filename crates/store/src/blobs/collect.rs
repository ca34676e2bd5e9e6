//! Garbage collection: removes unreferenced blobs.

use super::folder::{BlobFileNames, Dir, ShardFile};
use super::pins::CollectorLocks;
use super::store::Store;
use super::{BlobError, blocking, temp};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::{Hash, Timestamp};

/// Result of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectReport {
    /// Blobs that were removed.
    pub removed: u64,
    /// Their bytes, trees not counted.
    pub bytes: u64,
    /// Blobs that stay: live, young or pinned.
    pub kept: u64,
    /// Of those, the ones protected only by a pin.
    pub pinned: u64,
}

pub(super) async fn collect(
    store: &Arc<Store>,
    live: &mut (dyn FnMut(&Hash) -> bool + Send),
    min_age: Duration,
    now: Timestamp,
) -> Result<CollectReport, BlobError> {
    let limit = AgeLimit { min_age, now };
    let swept = store.clone();
    blocking(move || temp::sweep(&swept.folder)).await?;
    let mut total = CollectReport::default();
    // Shard by shard, so that only the list of one shard is in memory.
    for shard in 0..=u8::MAX {
        let listed = store.clone();
        let mut found = blocking(move || list(&listed, shard, limit)).await?;
        total.kept += found.young;
        found.old.retain(|part| match part {
            ShardFile::Data(hash) if live(hash) => {
                total.kept += 1;
                false
            }
            _ => true,
        });
        if found.old.is_empty() {
            continue;
        }
        let store = store.clone();
        let done = blocking(move || remove(&store, shard, &found.old, limit)).await?;
        total.removed += done.removed;
        total.bytes += done.bytes;
        total.kept += done.kept;
        total.pinned += done.pinned;
    }
    Ok(total)
}

#[derive(Clone, Copy)]
struct AgeLimit {
    min_age: Duration,
    now: Timestamp,
}

impl AgeLimit {
    fn is_old(self, data: &Metadata) -> bool {
        let stored = data.mtime().max(0) as u64 * 1000 + data.mtime_nsec() as u64 / 1_000_000;
        u128::from(self.now.unix_ms().saturating_sub(stored)) >= self.min_age.as_millis()
    }
}

struct ShardListing {
    /// Blobs and trees; whether a tree is stray is checked later, under the lock.
    old: Vec<ShardFile>,
    young: u64,
}

fn list(store: &Store, shard: u8, limit: AgeLimit) -> Result<ShardListing, BlobError> {
    let mut found = ShardListing { old: Vec::new(), young: 0 };
    if store.folder.shard(shard)?.is_none() {
        return Ok(found);
    }
    let fault = |e| BlobError::io(&format!("list {shard:02x}"), e);
    for entry in std::fs::read_dir(store.folder.shard_path(shard)).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let Some(part) = entry.file_name().to_str().and_then(|name| ShardFile::parse(shard, name)) else {
            continue;
        };
        match entry.metadata() {
            // Not a file of the store; `verify` reports it.
            Ok(data) if !data.is_file() => {}
            Ok(data) if limit.is_old(&data) => found.old.push(part),
            Ok(_) => found.young += u64::from(matches!(part, ShardFile::Data(_))),
            // Removed meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(fault(e)),
        }
    }
    // Blobs first: each is removed with its tree, so that only stray trees remain.
    found.old.sort_by_key(|part| matches!(part, ShardFile::Tree(_)));
    Ok(found)
}

fn remove(store: &Store, shard: u8, old: &[ShardFile], limit: AgeLimit) -> Result<CollectReport, BlobError> {
    let mut done = CollectReport::default();
    let Some(dir) = store.folder.shard(shard)? else { return Ok(done) };
    let locks = CollectorLocks(store.folder.open_sibling("pins")?);
    for part in old {
        let (hash, is_data) = match part {
            ShardFile::Data(hash) => (hash, true),
            ShardFile::Tree(hash) => (hash, false),
        };
        let fault = |e| BlobError::io(&format!("remove {}", BlobFileNames::of(hash).display_path()), e);
        let mut moved = Vec::new();
        let removed_size = locks
            .with_exclusive(hash, || remove_from_shard(store, &dir, part, limit, &mut moved))
            .map_err(fault)?;
        // Freeing the space may take long; the blob can already be pinned and stored again.
        for name in moved {
            store.folder.temps.remove(&name).map_err(fault)?;
        }
        match removed_size.transpose()? {
            Some(Some(bytes)) if is_data => {
                done.removed += 1;
                done.bytes += bytes;
            }
            Some(None) if is_data => done.kept += 1,
            None if is_data => {
                done.kept += 1;
                done.pinned += 1;
            }
            _ => {}
        }
    }
    Ok(done)
}

/// Moves a blob or stray tree to `tmp/`, unless it was stored again meanwhile. Returns the size of the blob.
fn remove_from_shard(
    store: &Store,
    dir: &Dir,
    part: &ShardFile,
    limit: AgeLimit,
    moved: &mut Vec<String>,
) -> Result<Option<u64>, BlobError> {
    let mut size = None;
    let names = match part {
        ShardFile::Data(hash) | ShardFile::Tree(hash) => BlobFileNames::of(hash),
    };
    let fault = |e| BlobError::io(&format!("remove {}", names.display_path()), e);
    let data = match dir.file(&names.data) {
        // Not a regular file; `verify` reports it.
        Err(e) if e.kind() == io::ErrorKind::InvalidData => return Ok(None),
        data => data.map_err(fault)?,
    };
    if let (ShardFile::Data(_), Some(file)) = (part, &data) {
        let found = file.metadata().map_err(fault)?;
        if !limit.is_old(&found) {
            return Ok(None);
        }
        moved.push(temp::move_to_temp(&store.folder, dir, &names.data).map_err(fault)?);
        store.fault_point("blob.moved")?;
        size = Some(found.len());
    } else if data.is_some() {
        // The tree is not stray.
        return Ok(None);
    }
    let tree = dir.file(&names.tree).ok().flatten();
    if tree.is_some_and(|tree| tree.metadata().is_ok_and(|tree| limit.is_old(&tree))) {
        moved.push(temp::move_to_temp(&store.folder, dir, &names.tree).map_err(fault)?);
    }
    Ok(size)
}
