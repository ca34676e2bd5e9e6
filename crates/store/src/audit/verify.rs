//! Checks every chain against its hashes, its head, and the segments it names.
//!
//! Detects every record changed, removed or moved before the last stored head. What a crash leaves behind
//! after the head is a note. Memory grows with the number of segments, not of records.

use super::AuditError;
use super::folder::{Folder, Lock, lock};
use super::head::{self, Head, LoadedHead};
use super::reader::LineReader;
use super::record::Line;
use super::record::{Opening, PrunedSegment};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use toolyard_protocol::{Digest, Id};

/// Maximum number of problems, and of notes, listed; more are only counted.
const SHOWN: usize = 200;

/// The result of [`verify`]. The log is intact if there are no problems.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub segments: u64,
    pub records: u64,
    pub problems: Vec<Problem>,
    /// Traces of crashes, which are harmless.
    pub notes: Vec<Problem>,
    /// Findings beyond those listed.
    pub more: u64,
}

/// A finding, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub segment: Id,
    /// From 1; 0 for the segment as a whole.
    pub line: u64,
    pub what: String,
}

pub fn verify(state_dir: &Path) -> Result<Report, AuditError> {
    let folder = Folder::of(state_dir);
    let mut report = Report::default();
    if !folder.segments.exists() && !folder.heads.exists() {
        return Ok(report);
    }
    // Where the lock cannot be taken (a read-only copy), nothing is pruned either.
    let _lock = folder.lock_pruning(Lock::Shared).ok();
    // Heads first: they are created before their segments, and a segment read later reaches at least as far.
    let mut heads = HashMap::new();
    for id in folder.head_ids()? {
        heads.insert(id, load_head(&folder, id, &mut report)?);
    }
    let mut seen = HashMap::new();
    for id in folder.segment_ids()? {
        report.segments += 1;
        let mut segment = SegmentVerifier::new(id, heads.remove(&id), &mut report);
        segment.read(&folder)?;
        seen.insert(id, segment.seen);
    }
    check_links(&folder, &seen, &heads, &mut report)?;
    Ok(report)
}

impl Report {
    fn problem(&mut self, segment: Id, line: u64, what: impl Into<String>) {
        let finding = Problem { segment, line, what: what.into() };
        if self.problems.len() < SHOWN { self.problems.push(finding) } else { self.more += 1 }
    }

    fn note(&mut self, segment: Id, line: u64, what: impl Into<String>) {
        let finding = Problem { segment, line, what: what.into() };
        if self.notes.len() < SHOWN { self.notes.push(finding) } else { self.more += 1 }
    }
}

fn load_head(folder: &Folder, id: Id, report: &mut Report) -> Result<Head, AuditError> {
    let path = folder.head(id);
    match head::load(&path, id).map_err(|e| AuditError::io("read", &path, e))? {
        LoadedHead::Whole(head) => Ok(head),
        LoadedHead::Half(head) => {
            report.note(id, 0, "one of the two slots of its head is damaged, as after a crash");
            Ok(head)
        }
        // The head is created before its segment: a process killed in between leaves only an empty head.
        LoadedHead::Damaged if is_empty(&path) && !folder.segment(id).exists() => Ok(Head::EMPTY),
        LoadedHead::Damaged => {
            report.problem(id, 0, "both slots of its head are damaged");
            Ok(Head::EMPTY)
        }
    }
}

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.len() == 0)
}

/// Summary of a verified segment.
#[derive(Default)]
struct SegmentSummary {
    opening: Option<Opening>,
    removed: Vec<PrunedSegment>,
    last: Option<Digest>,
    closed: bool,
}

/// Verifies one segment.
struct SegmentVerifier<'a> {
    id: Id,
    head: Option<Head>,
    report: &'a mut Report,
    line: u64,
    next: u64,
    /// Hash of the previous line; `None` after a line that could not be read.
    previous: Option<Digest>,
    seen: SegmentSummary,
}

impl<'a> SegmentVerifier<'a> {
    fn new(id: Id, head: Option<Head>, report: &'a mut Report) -> SegmentVerifier<'a> {
        SegmentVerifier {
            id,
            head,
            report,
            line: 0,
            next: 0,
            previous: Some(Digest::ZERO),
            seen: SegmentSummary::default(),
        }
    }

    fn read(&mut self, folder: &Folder) -> Result<(), AuditError> {
        let path = folder.segment(self.id);
        let read = |e| AuditError::io("read", &path, e);
        let live = is_live(&path);
        let Some(mut lines) = LineReader::open(&path, 0).map_err(read)? else { return Ok(()) };
        let head = self.head.unwrap_or_else(|| {
            self.report.problem(self.id, 0, "its head is missing, so a truncation cannot be detected");
            Head::EMPTY
        });
        let mut head_met = head.records == 0;
        while let Some(raw) = lines.read().map_err(read)? {
            let (start, whole) = (raw.start, raw.whole());
            // Nothing is written after a close record, so anything there is not the trace of a crash.
            let may_be_torn = start >= head.length && !self.seen.closed;
            let fault = self.check(raw.bytes);
            let at_end = !whole || lines.at_end().map_err(read)?;
            match fault {
                None => self.report.records += 1,
                Some(_) if may_be_torn && at_end => {
                    self.report.note(self.id, self.line, "torn tail after crash: incomplete last line");
                }
                Some(what) => self.report.problem(self.id, self.line, what),
            }
            if self.line == head.records {
                head_met = self.previous == Some(head.hash) && lines.offset() == head.length;
            }
            if !whole {
                break;
            }
        }
        if !head_met {
            let what = format!(
                "it does not match its head of {} records and {} bytes: records were removed or rewritten",
                head.records, head.length
            );
            self.report.problem(self.id, self.line, what);
        }
        if !self.seen.closed && !live {
            self.report.note(self.id, self.line, "it was never closed: its process was killed");
        }
        self.seen.last = self.previous;
        Ok(())
    }

    /// What is wrong with the next line, if anything. Continues from the line as it is, so that one change is
    /// one finding.
    fn check(&mut self, bytes: &[u8]) -> Option<String> {
        self.line += 1;
        let Some(line) = Line::read(bytes) else {
            self.previous = None;
            self.next += 1;
            return Some("not a complete record".into());
        };
        let expected = self.next;
        let linked = self.previous.is_none_or(|previous| line.follows(&previous));
        self.next = line.seq.wrapping_add(1);
        self.previous = Some(line.hash);
        if line.seq != expected {
            return Some(format!("found record {} instead of {expected}: removed or moved", line.seq));
        }
        if !linked {
            return Some(format!("wrong hash: record {expected} or the one before it was changed"));
        }
        self.track_record(&line)
    }

    fn track_record(&mut self, line: &Line) -> Option<String> {
        if self.seen.closed {
            return Some("record after the close record".into());
        }
        match line.kind {
            "open" => self.seen.opening = Opening::read(line.fields).filter(|o| o.segment == self.id),
            "close" => self.seen.closed = true,
            "prune" => self.seen.removed.extend(PrunedSegment::read(line.fields).unwrap_or_default()),
            _ => {}
        }
        let opened = self.seen.opening.is_some();
        (line.seq == 0 && !opened).then(|| "not the opening record of this segment".to_owned())
    }
}

/// Whether the process that writes the segment is still running.
fn is_live(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| lock(&file, Lock::Try).is_err())
}

/// Every segment that another one, a head or `latest` names must exist or be named by a prune record.
fn check_links(
    folder: &Folder,
    seen: &HashMap<Id, SegmentSummary>,
    heads_left: &HashMap<Id, Head>,
    report: &mut Report,
) -> Result<(), AuditError> {
    let removed: Vec<PrunedSegment> = seen.values().flat_map(|seen| &seen.removed).copied().collect();
    let known: HashSet<Id> = seen.keys().copied().chain(removed.iter().map(|r| r.segment)).collect();
    let parts: HashMap<(Id, u64), &SegmentSummary> = seen
        .values()
        .filter_map(|seen| seen.opening.as_ref().map(|opening| ((opening.run, opening.part), seen)))
        .collect();
    let mut ids: Vec<&Id> = seen.keys().collect();
    ids.sort();
    for id in ids {
        let Some(opening) = &seen[id].opening else { continue };
        if let Some(follows) = opening.follows.filter(|follows| !known.contains(follows)) {
            report.problem(*id, 1, format!("the preceding segment {follows} is missing"));
        }
        let Some(previous_part) = opening.part.checked_sub(1) else { continue };
        match parts.get(&(opening.run, previous_part)) {
            Some(before) if before.last == Some(opening.previous) => {}
            Some(_) => report.problem(*id, 1, "the previous part of its run ends with another hash"),
            None if removed.iter().any(|removed| removed.hash == opening.previous) => {}
            None => report.problem(*id, 1, "the previous part of its run is missing"),
        }
    }
    let mut missing: Vec<(&Id, &Head)> = heads_left.iter().filter(|(id, _)| !known.contains(id)).collect();
    missing.sort_by_key(|(id, _)| **id);
    for (id, head) in missing {
        match head.records {
            0 => report.note(*id, 0, "its process was killed when it was about to be opened"),
            records => {
                report.problem(*id, 0, format!("the segment is missing; its head counts {records} records"))
            }
        }
    }
    if let Some(latest) = folder.latest()?.filter(|latest| !known.contains(latest)) {
        report.problem(latest, 0, "the segment named by 'latest' is missing");
    }
    Ok(())
}
