//! Verifies all blobs and reports damage. Changes nothing.

use super::folder::{BlobFileNames, ShardFile};
use super::store::{Store, hash_file};
use super::tree::tree_len;
use super::{BlobError, blocking};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use toolyard_protocol::Hash;

/// Maximum number of damaged blobs listed; more are only counted.
const LISTED: usize = 1000;

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub blobs: u64,
    pub bytes: u64,
    /// At most 1000, in the order of their hashes.
    pub damaged: Vec<Damage>,
    /// Damaged blobs that are not listed.
    pub more: u64,
    /// Trees without a blob: harmless, and removed by the next collection.
    pub stray_trees: u64,
    /// Files that do not belong to the store.
    pub foreign: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub hash: Hash,
    pub flaw: Flaw,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The content differs from what was stored; readers refuse it.
    Content,
    /// The content is intact, its tree is missing or wrong; the next read of a range rebuilds it.
    Tree,
    /// The system error, or that it is not a regular file.
    Unreadable(String),
}

pub(super) async fn verify(store: &Arc<Store>) -> Result<Report, BlobError> {
    let mut report = Report::default();
    for shard in 0..=u8::MAX {
        let store = store.clone();
        report = blocking(move || {
            verify_shard(&store, shard, &mut report)?;
            Ok(report)
        })
        .await?;
    }
    Ok(report)
}

fn verify_shard(store: &Arc<Store>, shard: u8, report: &mut Report) -> Result<(), BlobError> {
    if store.folder.shard(shard)?.is_none() {
        return Ok(());
    }
    let fault = |e| BlobError::io(&format!("list {shard:02x}"), e);
    let (mut blobs, mut trees) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(store.folder.shard_path(shard)).map_err(fault)? {
        match entry.map_err(fault)?.file_name().to_str().and_then(|name| ShardFile::parse(shard, name)) {
            Some(ShardFile::Data(hash)) => blobs.push(hash),
            Some(ShardFile::Tree(hash)) => trees.push(hash),
            None => report.foreign += 1,
        }
    }
    blobs.sort();
    report.stray_trees += trees.iter().filter(|hash| blobs.binary_search(hash).is_err()).count() as u64;
    for hash in blobs {
        let _pin = store.pin(&hash);
        let flaw = match store.data(&hash) {
            // Collected meanwhile.
            Err(BlobError::NotFound { .. }) => continue,
            Err(BlobError::Damaged { .. }) => Some(Flaw::Unreadable("it is not a regular file".into())),
            Err(e) => Some(Flaw::Unreadable(e.to_string())),
            Ok(data) => flaw(store, &hash, &data, report),
        };
        report.blobs += 1;
        let Some(flaw) = flaw else { continue };
        if report.damaged.len() < LISTED {
            report.damaged.push(Damage { hash, flaw });
        } else {
            report.more += 1;
        }
    }
    Ok(())
}

fn flaw(store: &Store, hash: &Hash, data: &File, report: &mut Report) -> Option<Flaw> {
    let size = match data.metadata() {
        Ok(data) => data.len(),
        Err(e) => return Some(Flaw::Unreadable(e.to_string())),
    };
    report.bytes += size;
    let tree = open_tree(store, hash);
    let mut tree_at = 0;
    let mut tree_right = tree
        .as_ref()
        .map_or(tree_len(size) == 0, |tree| tree.metadata().is_ok_and(|tree| tree.len() == tree_len(size)));
    let found = hash_file(data, size, |nodes| {
        if let (true, Some(tree)) = (tree_right, &tree) {
            let mut stored = vec![0; nodes.len()];
            tree_right = tree.read_exact_at(&mut stored, tree_at).is_ok() && stored == nodes;
            tree_at += nodes.len() as u64;
        }
        Ok(())
    });
    match found {
        Ok(found) if found != Some(*hash) => Some(Flaw::Content),
        Ok(_) => (!tree_right).then_some(Flaw::Tree),
        Err(e) => Some(Flaw::Unreadable(e.to_string())),
    }
}

fn open_tree(store: &Store, hash: &Hash) -> Option<File> {
    let names = BlobFileNames::of(hash);
    let shard = store.folder.shard(names.shard).ok()??;
    let tree: io::Result<Option<File>> = shard.file(&names.tree);
    tree.ok()?
}
