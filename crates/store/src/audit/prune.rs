//! Retention: removes whole segments that are old and that no process writes to, and records it in the chain.

use super::folder::{Folder, Lock, lock};
use super::head::{self, Head, LoadedHead};
use super::reader::LineReader;
use super::record::Line;
use super::record::{self, Opening, PrunedSegment};
use super::writer::Kind;
use super::{AuditError, FileAuditLog, sync};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use toolyard_protocol::{Id, Timestamp};

/// Segments named by one prune record, so that its line stays well below the maximum length.
const NAMES: usize = 64;

impl FileAuditLog {
    /// Removes segments that were last written to more than `keep` ago and that no process writes to; returns
    /// how many. Called at open when retention is set.
    pub fn prune(&self, keep: Duration) -> Result<usize, AuditError> {
        let limit = self.clock.now().unix_ms().saturating_sub(keep.as_millis() as u64);
        let folder = &self.folder;
        if !folder.segment_ids()?.into_iter().any(|id| is_prunable(&folder.segment(id), limit)) {
            return Ok(0);
        }
        // Another process is pruning or verifying: the next start prunes.
        let Ok(_lock) = folder.lock_pruning(Lock::Try) else { return Ok(0) };
        let (old, remaining): (Vec<Id>, Vec<Id>) =
            folder.segment_ids()?.into_iter().partition(|id| is_prunable(&folder.segment(*id), limit));
        let names = names(folder, &old, &remaining)?;
        for some in names.chunks(NAMES) {
            self.append(Kind::Single, record::prune(self.clock.now(), some))?;
        }
        // The names must be durable before the files are removed, or a crash would look like tampering.
        sync::flush(&self.shared);
        if let Some(fault) = &self.shared.progress.borrow().fault {
            return Err(fault.clone());
        }
        for id in &old {
            for path in [folder.segment(*id), folder.head(*id)] {
                match fs::remove_file(&path) {
                    Err(e) if e.kind() != ErrorKind::NotFound => {
                        return Err(AuditError::io("remove", &path, e));
                    }
                    _ => {}
                }
            }
        }
        Ok(old.len())
    }
}

fn is_prunable(path: &Path, limit_ms: u64) -> bool {
    let old = fs::metadata(path).and_then(|m| m.modified()).is_ok_and(|at| {
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        Timestamp::from_unix_ms(at) < Timestamp::from_unix_ms(limit_ms)
    });
    old && File::open(path).is_ok_and(|file| lock(&file, Lock::Try).is_ok())
}

/// The segments to be removed, and those removed earlier that they name and that a remaining segment still
/// refers to.
fn names(folder: &Folder, old: &[Id], remaining: &[Id]) -> Result<Vec<PrunedSegment>, AuditError> {
    let mut named: Vec<PrunedSegment> = Vec::new();
    let mut earlier = Vec::new();
    for &id in old {
        let head = match head::load(&folder.head(id), id) {
            Ok(LoadedHead::Whole(head) | LoadedHead::Half(head)) => head,
            _ => Head::EMPTY,
        };
        named.push(PrunedSegment { segment: id, records: head.records, hash: head.hash });
        read(folder, id, |line| {
            if line.kind == "prune" {
                earlier.extend(PrunedSegment::read(line.fields).unwrap_or_default());
            }
            true
        })?;
    }
    let mut wanted: HashSet<Id> = folder.latest()?.into_iter().collect();
    let mut wanted_hashes = HashSet::new();
    for &id in remaining {
        read(folder, id, |line| {
            if let Some(opening) = Opening::read(line.fields) {
                wanted.extend(opening.follows);
                wanted_hashes.insert(opening.previous);
            }
            false
        })?;
    }
    named.extend(
        earlier.into_iter().filter(|e| wanted.contains(&e.segment) || wanted_hashes.contains(&e.hash)),
    );
    Ok(named)
}

/// Passes each record to `each` until it returns `false`.
fn read(folder: &Folder, id: Id, mut each: impl FnMut(&Line) -> bool) -> Result<(), AuditError> {
    let path = folder.segment(id);
    let failed = |e| AuditError::io("read", &path, e);
    let Some(mut lines) = LineReader::open(&path, 0).map_err(failed)? else { return Ok(()) };
    while let Some(raw) = lines.read().map_err(failed)? {
        if Line::read(raw.bytes).is_some_and(|line| !each(&line)) {
            break;
        }
    }
    Ok(())
}
