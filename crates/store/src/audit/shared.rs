//! What callers and the syncer share. Appending is flat combining: callers queue their records, and whoever
//! gets the file writes everything that is queued, so contention makes batches instead of a queue of writes.

use super::AuditError;
use super::log::Ticket;
use super::sync::{Progress, SyncSignal};
use super::writer::{Entry, Kind, Writer};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use tokio::sync::watch;

pub(super) struct Shared {
    queue: Mutex<Queue>,
    pub writer: Mutex<Combiner>,
    /// Every record up to here was written or refused.
    done: AtomicU64,
    /// Whether some refusal is still to be told, of whatever record.
    refusals: AtomicBool,
    pub signal: SyncSignal,
    pub progress: watch::Sender<Progress>,
    /// One pass of syncing at a time.
    pub passes: Mutex<()>,
}

struct Queue {
    entries: Vec<Entry>,
    last: u64,
}

/// The writer and the batch it is given; the vector is swapped with the queue's, so neither is allocated anew.
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

    /// Returns when the record was handed to the operating system, or why it was not.
    pub fn append(&self, kind: Kind, body: Vec<u8>) -> Result<Ticket, AuditError> {
        let number = self.enqueue(kind, body);
        self.write_until(number)
    }

    /// Gives a record its place. Whoever does so must call [`Shared::write_until`] with its number.
    pub fn enqueue(&self, kind: Kind, body: Vec<u8>) -> u64 {
        let mut queue = lock(&self.queue);
        queue.last += 1;
        let number = queue.last;
        queue.entries.push(Entry { number, kind, body });
        number
    }

    /// Writes what is queued, unless someone else has written this record already.
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

    /// Whether the record is written, or refused, now; `false` while someone else writes. Its result is still to be had.
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

    /// Tries again to write what is owed. Answers whether something still is.
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
            // Without its close record the segment reads as one whose process was killed: a note, no loss.
            let _ = self.writer.finish();
        }
    }
}

/// The data behind these locks is whole between any two statements that could panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
