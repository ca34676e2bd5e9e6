//! State shared by callers and the syncer. Appending is flat combining: callers queue their records, and the
//! one that gets the lock writes everything queued, so that contention leads to larger batches.

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
