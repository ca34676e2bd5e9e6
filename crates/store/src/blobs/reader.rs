//! Reads a blob or a range of it; every byte is verified against the hash before it is returned.

use super::folder::BlobFileNames;
use super::pins::Pin;
use super::store::{PIECE, Store, hash_file};
use super::temp::Temp;
use super::tree::{GROUP, Leaf, PAIR, Pair, TreeWalk, group_value, groups, hash, tree_len};
use super::{BlobError, blocking};
use bytes::Bytes;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tokio::task::JoinHandle;
use toolyard_protocol::Hash;

/// Streams a blob in pieces. The blob stays readable even if it is removed meanwhile.
pub struct BlobReader {
    /// `None` while a piece is being read, and after an error.
    source: Option<Box<OpenBlob>>,
    /// Stored here and not in the future, so that dropping `next` loses nothing.
    reading: Option<JoinHandle<Read>>,
    range: Range<u64>,
    size: u64,
}

type Read = (Box<OpenBlob>, Result<Bytes, BlobError>);

impl BlobReader {
    pub(super) async fn open(
        store: Arc<Store>,
        hash: Hash,
        range: Option<Range<u64>>,
    ) -> Result<BlobReader, BlobError> {
        let source = blocking(move || OpenBlob::open(store, hash)).await?;
        let size = source.size;
        let range = range.unwrap_or(0..size);
        if range.start > range.end || range.end > size {
            return Err(BlobError::Range { start: range.start, end: range.end, size });
        }
        Ok(BlobReader { source: Some(Box::new(source)), reading: None, range, size })
    }

    /// Size of the whole blob, verified.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of the range that were not returned yet.
    pub fn left(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The next piece, at most 256 KiB; `None` after an error. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Bytes, BlobError>> {
        if self.reading.is_none() {
            if self.range.is_empty() {
                return None;
            }
            let mut source = self.source.take()?;
            let range = self.range.clone();
            self.reading = Some(tokio::task::spawn_blocking(move || {
                let piece = source.piece(range);
                (source, piece)
            }));
        }
        let read = self.reading.as_mut()?.await;
        self.reading = None;
        let Ok((source, piece)) = read else { return Some(Err(BlobError::Stopped)) };
        if let Ok(bytes) = &piece {
            self.range.start += bytes.len() as u64;
            self.source = Some(source);
        }
        Some(piece)
    }
}

/// The whole blob at once.
pub(super) fn read_whole(store: &Arc<Store>, address: &Hash, cap: u64) -> Result<Bytes, BlobError> {
    let _pin = store.pin(address);
    let file = store.data(address)?;
    let size = len(&file)?;
    if size > cap {
        return Err(BlobError::TooLarge { hash: *address, size, cap });
    }
    let mut bytes = vec![0; size as usize];
    let complete = read_exact(&file, &mut bytes, 0)?;
    if complete && hash(&bytes) == *address {
        return Ok(bytes.into());
    }
    Err(BlobError::Damaged { hash: *address, at: first_damage(store.clone(), *address) })
}

/// Offset of the first damaged group; 0 if the tree does not tell.
fn first_damage(store: Arc<Store>, address: Hash) -> u64 {
    let Ok(mut source) = OpenBlob::open(store, address) else { return 0 };
    let mut at = 0;
    while at < source.size {
        match source.piece(at..source.size) {
            Ok(bytes) => at += bytes.len() as u64,
            Err(BlobError::Damaged { at, .. }) => return at,
            Err(_) => break,
        }
    }
    0
}

/// The blocking side: the open files of one blob.
pub(super) struct OpenBlob {
    store: Arc<Store>,
    hash: Hash,
    data: File,
    pub size: u64,
    proof: Proof,
    _pin: Pin,
}

enum Proof {
    /// A single group: verified at open and held in memory.
    Whole(Bytes),
    Tree {
        file: File,
        walk: TreeWalk,
    },
}

impl OpenBlob {
    pub fn open(store: Arc<Store>, hash: Hash) -> Result<OpenBlob, BlobError> {
        // Pinned, so that both files exist until both are open.
        let pin = store.pin(&hash);
        let data = store.data(&hash)?;
        let size = len(&data)?;
        let proof = if groups(size) < 2 {
            Proof::Whole(only_group(&data, hash, size)?)
        } else {
            let file = open_tree(&store, hash, size)?;
            let file = match file {
                Some(file) => file,
                None => rebuild(&store, hash, &data, size)?,
            };
            Proof::Tree { file, walk: TreeWalk::new(hash, size) }
        };
        let mut source = OpenBlob { store, hash, data, size, proof, _pin: pin };
        // The last group verifies the size: its chaining value depends on its bytes and its offset.
        source.check_end()?;
        Ok(source)
    }

    /// Verified bytes from the start of the range, up to its end or the size of one piece.
    pub fn piece(&mut self, range: Range<u64>) -> Result<Bytes, BlobError> {
        if let Proof::Whole(bytes) = &self.proof {
            return Ok(bytes.slice(range.start as usize..range.end as usize));
        }
        let first = range.start / GROUP;
        let from = first * GROUP;
        let to = range.end.min(from + PIECE as u64);
        // Whole groups are read: a part of one cannot be verified.
        let upto = to.next_multiple_of(GROUP).min(self.size);
        let mut bytes = vec![0; (upto - from) as usize];
        if !read_exact(&self.data, &mut bytes, from)? {
            return Err(BlobError::Damaged { hash: self.hash, at: from });
        }
        for (group, part) in (first..).zip(bytes.chunks(GROUP as usize)) {
            self.check(group, part)?;
        }
        Ok(Bytes::from(bytes).slice((range.start - from) as usize..(to - from) as usize))
    }

    fn check_end(&mut self) -> Result<(), BlobError> {
        if matches!(self.proof, Proof::Whole(_)) {
            return Ok(());
        }
        let last = groups(self.size) - 1;
        let mut bytes = vec![0; (self.size - last * GROUP) as usize];
        if !read_exact(&self.data, &mut bytes, last * GROUP)? {
            return Err(BlobError::Damaged { hash: self.hash, at: last * GROUP });
        }
        self.check(last, &bytes)?;
        // The next read may start at an earlier group.
        if let Proof::Tree { walk, .. } = &mut self.proof {
            *walk = TreeWalk::new(self.hash, self.size);
        }
        Ok(())
    }

    fn check(&mut self, group: u64, bytes: &[u8]) -> Result<(), BlobError> {
        let value = match self.leaf(group)? {
            Some(leaf) => leaf.value,
            None => {
                // The tree is damaged; it can be rebuilt if the data is intact.
                let file = rebuild(&self.store, self.hash, &self.data, self.size)?;
                self.proof = Proof::Tree { file, walk: TreeWalk::new(self.hash, self.size) };
                let damaged = BlobError::Damaged { hash: self.hash, at: group * GROUP };
                self.leaf(group)?.ok_or(damaged)?.value
            }
        };
        if group_value(group, bytes) == value {
            return Ok(());
        }
        Err(BlobError::Damaged { hash: self.hash, at: group * GROUP })
    }

    /// The leaf of a group; `None` if the tree does not match the blob.
    fn leaf(&mut self, group: u64) -> Result<Option<Leaf>, BlobError> {
        let Proof::Tree { file, walk } = &mut self.proof else { return Ok(None) };
        let leaf = walk.next(group, |pair| {
            let mut bytes: Pair = [0; PAIR];
            // A file truncated meanwhile reads as zeros, which fail verification.
            read_exact(file, &mut bytes, pair * PAIR as u64)?;
            Ok(bytes)
        })?;
        Ok(leaf.filter(|leaf| leaf.group == group))
    }
}

fn only_group(data: &File, address: Hash, size: u64) -> Result<Bytes, BlobError> {
    let mut bytes = vec![0; size as usize];
    if read_exact(data, &mut bytes, 0)? && hash(&bytes) == address {
        Ok(bytes.into())
    } else {
        Err(BlobError::Damaged { hash: address, at: 0 })
    }
}

/// The stored tree, if it exists and has the right length.
fn open_tree(store: &Store, hash: Hash, size: u64) -> Result<Option<File>, BlobError> {
    let names = BlobFileNames::of(&hash);
    let Some(shard) = store.folder.shard(names.shard)? else { return Ok(None) };
    let Ok(Some(file)) = shard.file(&names.tree) else { return Ok(None) };
    Ok((len(&file)? == tree_len(size)).then_some(file))
}

/// Rebuilds and stores the tree if the data is intact.
fn rebuild(store: &Store, hash: Hash, data: &File, size: u64) -> Result<File, BlobError> {
    let mut temp = Temp::create(&store.folder)?;
    let found = hash_file(data, size, |nodes| temp.write(nodes))?;
    if found != Some(hash) {
        return Err(BlobError::Damaged { hash, at: 0 });
    }
    let file = temp.try_clone()?;
    let names = BlobFileNames::of(&hash);
    let shard = store.folder.create_shard(names.shard)?;
    // Not synced: damage by a power cut is detected and repaired in the same way.
    temp.persist(&shard, &names.tree)?;
    Ok(file)
}

fn len(file: &File) -> Result<u64, BlobError> {
    file.metadata().map(|data| data.len()).map_err(|e| BlobError::io("stat a blob", e))
}

/// False if the file is too short.
fn read_exact(file: &File, bytes: &mut [u8], at: u64) -> Result<bool, BlobError> {
    match file.read_exact_at(bytes, at) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(BlobError::io("read a blob", e)),
    }
}
