//! Writes records in batches: admits them, chains them, appends them with one write. Appending is flat combining: callers
//! queue their records, and the one that gets the lock writes everything queued, so that contention leads to larger
//! batches.
//!
//! A begin is admitted only if there is space for it and for the end of every open call, so ends are never
//! refused. If a write fails nevertheless, its ends are deferred and written first by a later write.

use super::AuditError;
use super::folder::Folder;
use super::head::Head;
use super::log::Ticket;
use super::record::{self, Chain, END_MAX, OVERHEAD, Opening};
use super::segment::{OpenSegment, SegmentFiles};
use super::sync::{Progress, SyncSignal};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use tokio::sync::watch;
use toolyard_engine::clock::{Clock, Random, new_id};
use toolyard_protocol::{Digest, Id};

/// Space reserved for a close record.
const CLOSE_MAX: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Begin,
    End,
    /// A record without a counterpart: a refusal, a pruning.
    Single,
}

/// A queued record.
pub(super) struct Entry {
    pub number: u64,
    pub kind: Kind,
    pub body: Vec<u8>,
}

/// A segment and how far it has been written.
pub(super) struct SegmentProgress {
    pub files: Arc<SegmentFiles>,
    pub head: Head,
    pub closed: bool,
}

pub(super) struct Writer {
    pub folder: Folder,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    run: Id,
    segment_bytes: u64,
    /// A segment that was begun longer ago is closed, so that it can be pruned.
    segment_age: Option<Duration>,
    live: Option<OpenSegment>,
    part: u64,
    /// Last hash of the previous part.
    previous: Digest,
    retired: Vec<SegmentProgress>,
    open_calls: u64,
    /// Ends that could not be written yet. Bounded by the open calls, which stay open until theirs is written.
    deferred_ends: Vec<Entry>,
    /// Errors of records that were not written, by number; each is removed by its caller.
    failed: BTreeMap<u64, AuditError>,
    /// Every record up to this number was written or refused.
    done: u64,
    stop: Option<AuditError>,
    buffer: Vec<u8>,
}

impl Writer {
    pub fn new(
        folder: Folder,
        (segment_bytes, segment_age): (u64, Option<Duration>),
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Writer {
        Writer {
            folder,
            run: new_id(&*clock, &*random),
            clock,
            random,
            segment_bytes,
            segment_age,
            live: None,
            part: 0,
            previous: Digest::ZERO,
            retired: Vec::new(),
            open_calls: 0,
            deferred_ends: Vec::new(),
            failed: BTreeMap::new(),
            done: 0,
            stop: None,
            buffer: Vec::new(),
        }
    }

    pub fn done(&self) -> u64 {
        self.done
    }

    /// The result of the record with this number.
    pub fn result(&mut self, number: u64) -> Result<(), AuditError> {
        self.failed.remove(&number).map_or(Ok(()), Err)
    }

    /// Whether there is a refusal that its caller has not fetched yet.
    pub fn has_refusals(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Refuses every new call from now on; ends are still written.
    pub fn stop(&mut self, why: AuditError) {
        self.stop.get_or_insert(why);
    }

    pub fn has_deferred_ends(&self) -> bool {
        !self.deferred_ends.is_empty()
    }

    /// Segments to sync: those closed since the last call, and the live one.
    pub fn segments_to_sync(&mut self) -> Vec<SegmentProgress> {
        let mut all = std::mem::take(&mut self.retired);
        all.extend(self.live.as_ref().map(|live| SegmentProgress {
            files: live.files.clone(),
            head: live.head(),
            closed: false,
        }));
        all
    }

    /// Returns closed segments that could not be synced to the list; the live one is always on it.
    pub fn return_unsynced(&mut self, reached: Vec<SegmentProgress>) {
        self.retired.splice(0..0, reached.into_iter().filter(|one| one.closed));
    }

    /// Writes a batch in the order of its numbers and empties it.
    pub fn write(&mut self, batch: &mut Vec<Entry>) {
        if let Some(last) = batch.last() {
            self.done = last.number;
        }
        if !self.deferred_ends.is_empty() {
            batch.splice(0..0, std::mem::take(&mut self.deferred_ends));
        }
        if batch.is_empty() {
            return;
        }
        let refusal = self.prepare(batch).err();
        if self.live.is_none() {
            let why = refusal.unwrap_or(AuditError::Closed);
            batch.drain(..).for_each(|entry| self.fail(entry, why.clone()));
            return;
        }
        self.append(batch, refusal);
    }

    /// Opens or rotates the segment as needed; on an error, new calls are refused.
    fn prepare(&mut self, batch: &[Entry]) -> Result<(), AuditError> {
        let only_ends = batch.iter().all(|entry| entry.kind == Kind::End);
        if let Some(removed) = self.live.take_if(|live| live.is_removed()) {
            self.previous = removed.chain.hash;
        }
        match (&self.live, &self.stop) {
            (_, Some(why)) if !only_ends || self.live.is_some() => Err(why.clone()),
            (None, _) => self.open_segment(),
            (Some(live), _) if !only_ends && (live.length >= self.segment_bytes || self.is_old(live)) => {
                self.open_segment()
            }
            _ => Ok(()),
        }
    }

    fn is_old(&self, live: &OpenSegment) -> bool {
        let age = |now: u64| Duration::from_millis(now.saturating_sub(live.files.id.unix_ms()));
        self.segment_age.is_some_and(|limit| age(self.clock.now().unix_ms()) >= limit)
    }

    /// Closes a segment that is old and that no call needs; the next record opens another.
    pub fn close_if_old(&mut self) -> Result<(), AuditError> {
        let is_due = self.open_calls == 0 && self.live.as_ref().is_some_and(|live| self.is_old(live));
        if is_due { self.close_segment() } else { Ok(()) }
    }

    fn append(&mut self, batch: &mut Vec<Entry>, refusal: Option<AuditError>) {
        let Some(mut live) = self.live.take() else { return };
        let mut chain = live.chain;
        let mut open_calls = self.open_calls;
        let mut lines = std::mem::take(&mut self.buffer);
        lines.clear();
        batch.retain(|entry| {
            let begins = u64::from(entry.kind == Kind::Begin);
            let line = (entry.body.len() + OVERHEAD) as u64;
            let end = live.length + lines.len() as u64 + line + (open_calls + begins) * END_MAX + CLOSE_MAX;
            let admitted = match (&refusal, entry.kind) {
                // Its space was reserved when its call began.
                (_, Kind::End) => Ok(()),
                (Some(why), _) => Err(why.clone()),
                (None, _) => live.reserve(end),
            };
            if let Err(why) = admitted {
                self.failed.insert(entry.number, why);
                return false;
            }
            chain.append(&mut lines, &entry.body);
            open_calls = open_calls + begins - u64::from(entry.kind == Kind::End);
            true
        });
        match live.write(&lines) {
            Ok(()) => {
                live.chain = chain;
                self.open_calls = open_calls;
                batch.clear();
            }
            Err(why) => {
                batch.drain(..).for_each(|entry| self.fail(entry, why.clone()));
                // Truncating the failed write released the space reserved for the open calls; if it cannot be
                // reserved again, their ends may be deferred, but are not lost.
                let _ = live.reserve(live.length + self.open_calls * END_MAX + CLOSE_MAX);
            }
        }
        self.buffer = lines;
        self.live = Some(live);
    }

    fn fail(&mut self, entry: Entry, why: AuditError) {
        // A deferred end has number 0: its caller already got the error.
        if entry.number > 0 {
            self.failed.insert(entry.number, why);
        }
        if entry.kind == Kind::End {
            self.deferred_ends.push(Entry { number: 0, ..entry });
        }
    }

    /// Starts the next part of this run. Closes the previous one only once space for the new one is reserved.
    fn open_segment(&mut self) -> Result<(), AuditError> {
        let id = new_id(&*self.clock, &*self.random);
        let follows = self.folder.latest()?;
        let mut next = OpenSegment::create(&self.folder, id)?;
        let opened = self.start_segment(&mut next, follows);
        if opened.is_err() {
            next.abandon(&self.folder);
            return opened;
        }
        self.part += 1;
        self.live = Some(next);
        Ok(())
    }

    fn start_segment(&mut self, next: &mut OpenSegment, follows: Option<Id>) -> Result<(), AuditError> {
        next.reserve(OVERHEAD as u64 + 512 + self.open_calls * END_MAX + CLOSE_MAX)?;
        self.close_segment()?;
        let opening = Opening {
            segment: next.files.id,
            run: self.run,
            part: self.part,
            previous: self.previous,
            follows,
        };
        let mut chain = Chain::START;
        let mut line = Vec::new();
        chain.append(&mut line, &record::open(self.clock.now(), &opening));
        next.write(&line)?;
        next.chain = chain;
        Ok(())
    }

    /// Writes the close record of the live segment and hands it to the syncer.
    fn close_segment(&mut self) -> Result<(), AuditError> {
        let Some(mut live) = self.live.take() else { return Ok(()) };
        let mut chain = live.chain;
        let mut line = Vec::new();
        chain.append(&mut line, &record::close(self.clock.now()));
        if let Err(e) = live.write(&line) {
            self.live = Some(live);
            return Err(e);
        }
        live.chain = chain;
        live.trim();
        self.previous = chain.hash;
        self.retired.push(SegmentProgress { files: live.files.clone(), head: live.head(), closed: true });
        Ok(())
    }

    /// Closes the segment if no call is open; deferred ends belong to open calls.
    pub fn finish(&mut self) -> Result<(), AuditError> {
        if self.open_calls == 0 { self.close_segment() } else { Ok(()) }
    }
}

/// State shared by callers and the syncer.
pub(super) struct Shared {
    queue: Mutex<Queue>,
    pub writer: Mutex<Combiner>,
    /// Every record up to this number was written or refused.
    done: AtomicU64,
    /// Whether there is a refusal that its caller has not fetched yet.
    refusals: AtomicBool,
    pub signal: SyncSignal,
    pub progress: watch::Sender<Progress>,
    /// Allows one sync pass at a time.
    pub passes: Mutex<()>,
}

struct Queue {
    entries: Vec<Entry>,
    last: u64,
}

/// The writer and its batch; the vector is swapped with the queue's, so that both are reused.
pub(super) struct Combiner {
    pub writer: Writer,
    batch: Vec<Entry>,
    closing: bool,
}

impl Shared {
    pub fn new(writer: Writer) -> Shared {
        Shared {
            queue: Mutex::new(Queue { entries: Vec::new(), last: 0 }),
            writer: Mutex::new(Combiner { writer, batch: Vec::new(), closing: false }),
            done: AtomicU64::new(0),
            refusals: AtomicBool::new(false),
            signal: SyncSignal::default(),
            progress: watch::Sender::new(Progress::default()),
            passes: Mutex::new(()),
        }
    }

    /// Returns when the record was written to the operating system, or the error.
    pub fn append(&self, kind: Kind, body: Vec<u8>) -> Result<Ticket, AuditError> {
        let number = self.enqueue(kind, body);
        self.write_until(number)
    }

    /// Queues a record. The caller must then call [`Shared::write_until`] with its number.
    pub fn enqueue(&self, kind: Kind, body: Vec<u8>) -> u64 {
        let mut queue = lock(&self.queue);
        queue.last += 1;
        let number = queue.last;
        queue.entries.push(Entry { number, kind, body });
        number
    }

    /// Writes everything queued, unless another caller has already written this record.
    pub fn write_until(&self, number: u64) -> Result<Ticket, AuditError> {
        if self.is_done(number) && !self.refusals.load(Ordering::Acquire) {
            return Ok(Ticket(number));
        }
        let mut combiner = lock(&self.writer);
        self.write_queued(&mut combiner, number);
        let result = combiner.writer.result(number);
        self.refusals.store(combiner.writer.has_refusals(), Ordering::Release);
        result.map(|()| Ticket(number))
    }

    /// [`Shared::write_until`] that returns `false` instead of waiting for another caller; leaves the result.
    pub fn try_write(&self, number: u64) -> bool {
        if self.is_done(number) {
            return true;
        }
        let mut combiner = match self.writer.try_lock() {
            Ok(combiner) => combiner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        self.write_queued(&mut combiner, number);
        true
    }

    fn write_queued(&self, combiner: &mut Combiner, number: u64) {
        if combiner.writer.done() < number {
            std::mem::swap(&mut lock(&self.queue).entries, &mut combiner.batch);
            combiner.write();
            self.refusals.store(combiner.writer.has_refusals(), Ordering::Release);
            self.done.store(combiner.writer.done(), Ordering::Release);
        }
    }

    fn is_done(&self, number: u64) -> bool {
        self.done.load(Ordering::Acquire) >= number
    }

    /// Retries deferred ends. Returns whether some are left.
    pub fn retry(&self) -> bool {
        let mut combiner = lock(&self.writer);
        if combiner.writer.has_deferred_ends() {
            combiner.write();
        }
        combiner.writer.has_deferred_ends()
    }

    /// Refuses new calls; the close record follows the last end.
    pub fn close(&self) {
        let mut combiner = lock(&self.writer);
        combiner.closing = true;
        combiner.writer.stop(AuditError::Closed);
        combiner.write();
    }
}

impl Combiner {
    fn write(&mut self) {
        self.writer.write(&mut self.batch);
        if self.closing {
            // Without its close record the segment looks like that of a killed process: a note, no loss.
            let _ = self.writer.finish();
        }
    }
}

/// Ignores poisoning: the data is consistent between any two statements that could panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
