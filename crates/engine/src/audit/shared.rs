//! What callers and the syncer share. Appending is flat combining: callers queue their records, and whoever
//! gets the file writes everything that is queued, so contention makes batches instead of a queue of writes.

use super::AuditError;
use super::log::Ticket;
use super::sync::{Progress, Wake};
use super::writer::{Entry, Kind, Writer};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

pub(super) struct Shared {
    queue: Mutex<Queue>,
    pub writer: Mutex<Combiner>,
    pub wake: Wake,
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
            wake: Wake::default(),
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
        let mut combiner = lock(&self.writer);
        if combiner.writer.done() < number {
            std::mem::swap(&mut lock(&self.queue).entries, &mut combiner.batch);
            combiner.write();
        }
        combiner.writer.result(number).map(|()| Ticket(number))
    }

    /// Tries again to write what is owed. Answers whether something still is.
    pub fn retry(&self) -> bool {
        let mut combiner = lock(&self.writer);
        if combiner.writer.owes() {
            combiner.write();
        }
        combiner.writer.owes()
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
