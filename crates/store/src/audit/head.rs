//! A head: how far one segment is known to reach, stored separately so that a truncation is detected.
//!
//! Two slots are written in turn, each with a checksum: a write torn by a crash leaves the other slot intact.

use super::folder::owner_only;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use toolyard_protocol::{Digest, Id};

/// One sector, so that no single disk write touches both slots.
const SLOT: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub records: u64,
    pub length: u64,
    pub hash: Digest,
}

impl Head {
    pub const EMPTY: Head = Head { records: 0, length: 0, hash: Digest::ZERO };
}

pub(super) struct HeadFile {
    file: File,
    segment: Id,
    generation: u64,
}

impl HeadFile {
    /// Writes both slots, so that no later write needs disk space.
    pub fn create(path: &Path, segment: Id) -> io::Result<HeadFile> {
        let file = owner_only().write(true).create_new(true).open(path)?;
        let mut head = HeadFile { file, segment, generation: 0 };
        for _ in 0..2 {
            head.write(Head::EMPTY)?;
        }
        Ok(head)
    }

    pub fn store(&mut self, head: Head) -> io::Result<()> {
        self.write(head)?;
        self.file.sync_data()
    }

    fn write(&mut self, head: Head) -> io::Result<()> {
        self.generation += 1;
        let slot = encode(self.segment, self.generation, head);
        self.file.write_all_at(&slot, (self.generation % 2) * SLOT as u64)
    }
}

/// The content of a head file.
pub(super) enum LoadedHead {
    Whole(Head),
    /// One slot is damaged; this is the other one.
    Half(Head),
    Damaged,
}

pub(super) fn load(path: &Path, segment: Id) -> io::Result<LoadedHead> {
    let file = File::open(path)?;
    let slots = [0, 1].map(|n| {
        let mut slot = [0u8; SLOT];
        file.read_exact_at(&mut slot, n * SLOT as u64).ok()?;
        decode(&slot, segment)
    });
    Ok(match slots {
        [Some(a), Some(b)] => LoadedHead::Whole(if a.0 > b.0 { a.1 } else { b.1 }),
        [Some(one), None] | [None, Some(one)] => LoadedHead::Half(one.1),
        [None, None] => LoadedHead::Damaged,
    })
}

fn encode(segment: Id, generation: u64, head: Head) -> [u8; SLOT] {
    let Head { records, length, hash } = head;
    let text = format!("toolyard-audit-head-1 {segment} {generation} {records} {length} {hash}");
    let text = format!("{text} {}", blake3::hash(text.as_bytes()));
    let mut slot = [b' '; SLOT];
    slot[..text.len()].copy_from_slice(text.as_bytes());
    slot[SLOT - 1] = b'\n';
    slot
}

fn decode(slot: &[u8; SLOT], segment: Id) -> Option<(u64, Head)> {
    let text = std::str::from_utf8(slot).ok()?.trim_end();
    let (text, sum) = text.rsplit_once(' ')?;
    if blake3::hash(text.as_bytes()).to_hex().as_str() != sum {
        return None;
    }
    let mut words = text.strip_prefix("toolyard-audit-head-1 ")?.split(' ');
    if Id::parse(words.next()?)? != segment {
        return None;
    }
    let generation = words.next()?.parse().ok()?;
    let (records, length) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((generation, Head { records, length, hash: Digest::parse_hex(words.next()?)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_torn_at_any_byte_leaves_the_head_before_it() {
        let dir = crate::audit::tests::TempDir::new();
        let (path, id) = (dir.path().join("x.head"), Id::from_parts(7, [9; 10]));
        let mut file = HeadFile::create(&path, id).unwrap();
        let head = |n| Head { records: n, length: n * 100, hash: Digest([n as u8; 32]) };
        file.store(head(1)).unwrap();
        file.store(head(2)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert!(matches!(load(&path, id).unwrap(), LoadedHead::Whole(h) if h == head(2)));
        let newest = if whole[..SLOT].windows(7).any(|w| w == b" 2 200 ") { 0 } else { SLOT };
        for cut in 0..200 {
            let mut torn = whole.clone();
            torn[newest + cut..newest + SLOT].fill(0);
            std::fs::write(&path, &torn).unwrap();
            assert!(matches!(load(&path, id).unwrap(), LoadedHead::Half(h) if h == head(1)), "cut at {cut}");
        }
    }
}
