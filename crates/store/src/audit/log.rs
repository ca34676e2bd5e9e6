//! The audit log: one record before a call runs, one after it ends, or one for a refusal.

use super::folder::Folder;
use super::writer::{Kind, Shared, Writer, lock};
use super::{AuditError, record, sync};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};
use toolyard_engine::clock::{Clock, Random};
use toolyard_engine::{AuditFuture, AuditLog, OpenRecord};
use toolyard_protocol::{Call, Error, Id, JsonView, Outcome, Timestamp, ToolSpec};

/// When a record is durable. Either way it is written to the operating system when the method returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Within 100 ms.
    #[default]
    Batched,
    /// Before [`FileAuditLog::wait_durable`] returns.
    Always,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub sync: SyncMode,
    /// Size at which a new segment is started.
    pub segment_bytes: u64,
    /// Segments not written to for this long are removed, when the log is opened and by
    /// [`FileAuditLog::maintain`]. Segments are closed after an eighth of it.
    pub retention: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options { sync: SyncMode::Batched, segment_bytes: 64 * 1024 * 1024, retention: None }
    }
}

/// How often a call tries to write its record without blocking before it waits for the current writer.
const TRIES: u32 = 8;

/// Segments are closed and pruned so many times within the retention.
const PARTS: u32 = 8;

/// The longest time between two prunings of an open log.
const MAX_PRUNE_INTERVAL: Duration = Duration::from_secs(3600);

/// Identifies a written record, for [`FileAuditLog::wait_durable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

/// The chain of records of one process run.
pub struct FileAuditLog {
    pub(super) shared: Arc<Shared>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) folder: Folder,
    view: Arc<dyn JsonView>,
    mode: SyncMode,
    retention: Option<Duration>,
    /// When segments were last pruned.
    pruned: Mutex<Instant>,
    /// Calls that have begun and not ended.
    open: AtomicUsize,
}

impl FileAuditLog {
    /// Creates no file before the first record, so that a command without a call leaves none.
    pub fn open(
        state_dir: &Path,
        options: Options,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        view: Arc<dyn JsonView>,
    ) -> Result<Arc<FileAuditLog>, AuditError> {
        let folder = Folder::of(state_dir);
        let bounds = (options.segment_bytes, options.retention.map(|keep| keep / PARTS));
        let writer = Writer::new(folder.clone(), bounds, clock.clone(), random);
        let shared = Arc::new(Shared::new(writer));
        let log = Arc::new(FileAuditLog {
            shared,
            clock,
            folder,
            view,
            mode: options.sync,
            retention: options.retention,
            pruned: Mutex::new(Instant::now()),
            open: AtomicUsize::new(0),
        });
        if let Some(keep) = options.retention {
            match log.prune(keep) {
                // Pruning needs a record, so nothing is removed; the first call reports the full disk.
                Ok(_) | Err(AuditError::Full { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(log)
    }

    /// Applies the retention while the log is open; does nothing unless that is due. Blocks the thread.
    pub fn maintain(&self) -> Result<(), AuditError> {
        let Some(keep) = self.retention else { return Ok(()) };
        {
            let mut pruned = lock(&self.pruned);
            if pruned.elapsed() < (keep / PARTS).min(MAX_PRUNE_INTERVAL) {
                return Ok(());
            }
            *pruned = Instant::now();
        }
        let closed = lock(&self.shared.writer).writer.close_if_old();
        sync::mark_dirty(&self.shared);
        closed.and_then(|()| self.prune(keep).map(|_| ()))
    }

    /// Records that `call` is about to run `spec`. Without this record nothing may run.
    pub fn begin(self: &Arc<Self>, call: &Call, spec: &ToolSpec) -> Result<OpenCall, AuditError> {
        self.queue_begin(call, spec).written()
    }

    /// [`FileAuditLog::begin`] that yields while other calls are open, so that one write serves several.
    pub async fn begin_grouped(
        self: &Arc<Self>,
        call: &Call,
        spec: &ToolSpec,
    ) -> Result<OpenCall, AuditError> {
        let mut queued = self.queue_begin(call, spec);
        self.yield_to_group(queued.number).await;
        queued.written()
    }

    /// Records a call that never ran.
    pub fn refused(&self, call: &Call, error: &Error) -> Result<Ticket, AuditError> {
        self.append(Kind::Single, record::refused(self.clock.now(), call, error, &*self.view))
    }

    /// Under [`SyncMode::Always`] waits until the record is on disk; one sync serves all waiters.
    pub async fn wait_durable(&self, ticket: Ticket) -> Result<(), AuditError> {
        if self.mode == SyncMode::Batched {
            return Ok(());
        }
        let mut progress = self.shared.progress.subscribe();
        let passes = progress.borrow().passes;
        loop {
            {
                let now = progress.borrow_and_update();
                if now.upto >= ticket.0 {
                    return Ok(());
                }
                // An earlier fault may be over: only a pass after this call counts.
                if let Some(fault) = now.fault.as_ref().filter(|_| now.passes > passes) {
                    return Err(fault.clone());
                }
            }
            sync::request_sync(&self.shared);
            // Cannot fail: `self` holds the sender.
            let _ = progress.changed().await;
        }
    }

    /// Refuses new calls, closes the chain once the last open call has ended, and makes all of it durable.
    pub fn close(&self) {
        self.shared.close();
        sync::flush(&self.shared);
    }

    fn queue_begin(self: &Arc<Self>, call: &Call, spec: &ToolSpec) -> QueuedBegin {
        let at = self.clock.now();
        let body = record::begin(at, call, spec, &*self.view);
        self.open.fetch_add(1, Ordering::Relaxed);
        let open_record = OpenCall {
            log: self.clone(),
            call: call.id,
            at,
            ticket: Ticket(0),
            is_written: false,
            ended: false,
        };
        QueuedBegin { number: self.shared.enqueue(Kind::Begin, body), open_record: Some(open_record) }
    }

    /// If other calls are open, yields to the tasks that are ready and then tries to write without blocking:
    /// blocking a thread until another has written costs more than the write.
    async fn yield_to_group(&self, number: u64) {
        if self.open.load(Ordering::Relaxed) <= 1 {
            return;
        }
        for _ in 0..TRIES {
            yield_once().await;
            if self.shared.try_write(number) {
                return;
            }
        }
    }

    pub(super) fn append(&self, kind: Kind, body: Vec<u8>) -> Result<Ticket, AuditError> {
        let appended = self.shared.append(kind, body);
        sync::mark_dirty(&self.shared);
        appended
    }
}

impl Drop for FileAuditLog {
    fn drop(&mut self) {
        self.shared.close();
        sync::stop(&self.shared);
        sync::flush(&self.shared);
    }
}

/// A call whose begin is recorded. Dropping it without an end records the call as cancelled.
#[must_use = "dropping this records the call as cancelled"]
pub struct OpenCall {
    log: Arc<FileAuditLog>,
    call: Id,
    at: Timestamp,
    ticket: Ticket,
    /// Whether the begin was written; without it there is nothing to end.
    is_written: bool,
    ended: bool,
}

impl OpenCall {
    /// The ticket of the begin record.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    pub fn end(mut self, outcome: &Outcome) -> Result<Ticket, AuditError> {
        let body = self.ending(outcome);
        self.log.append(Kind::End, body)
    }

    /// [`OpenCall::end`] that yields while other calls are open, so that one write serves several.
    pub async fn end_grouped(mut self, outcome: &Outcome) -> Result<Ticket, AuditError> {
        let body = self.ending(outcome);
        let number = self.log.shared.enqueue(Kind::End, body);
        let mut queued = QueuedEnd { log: &self.log, number: Some(number) };
        self.log.yield_to_group(number).await;
        queued.written()
    }

    fn ending(&mut self, outcome: &Outcome) -> Vec<u8> {
        self.ended = true;
        let now = self.log.clock.now();
        let measured = outcome.meta.duration;
        let duration_us = if measured.is_zero() { self.elapsed_us(now) } else { measured.as_micros() as u64 };
        record::end(now, self.call, duration_us, outcome)
    }

    fn elapsed_us(&self, now: Timestamp) -> u64 {
        now.unix_ms().saturating_sub(self.at.unix_ms()) * 1000
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.is_written && !self.ended {
            let now = self.log.clock.now();
            // No caller is left to get the error; a record that could not be written is deferred and retried.
            let _ = self.log.append(Kind::End, record::cancelled(now, self.call, self.elapsed_us(now)));
        }
        self.log.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AuditLog for FileAuditLog {
    fn begin<'a>(
        self: Arc<Self>,
        call: &'a Call,
        spec: &'a ToolSpec,
    ) -> AuditFuture<'a, Box<dyn OpenRecord>> {
        Box::pin(async move {
            let open_record = self.begin_grouped(call, spec).await.map_err(into_error)?;
            self.wait_durable(open_record.ticket).await.map_err(into_error)?;
            Ok(Box::new(open_record) as Box<dyn OpenRecord>)
        })
    }

    fn refused<'a>(&'a self, call: &'a Call, error: &'a Error) -> AuditFuture<'a, ()> {
        Box::pin(async move {
            let ticket = FileAuditLog::refused(self, call, error).map_err(into_error)?;
            self.wait_durable(ticket).await.map_err(into_error)
        })
    }

    fn maintain(&self) {
        // A full disk is reported by the next call; the next interval tries again.
        let _ = FileAuditLog::maintain(self);
    }

    fn close(&self) {
        FileAuditLog::close(self);
    }
}

impl OpenRecord for OpenCall {
    fn end<'a>(self: Box<Self>, outcome: &'a Outcome) -> AuditFuture<'a, ()> {
        Box::pin(async move {
            let log = self.log.clone();
            let ticket = self.end_grouped(outcome).await.map_err(into_error)?;
            log.wait_durable(ticket).await.map_err(into_error)
        })
    }

    fn end_job<'a>(self: Box<Self>, outcome: &'a Outcome) -> AuditFuture<'a, ()> {
        Box::pin(async move {
            let log = self.log.clone();
            let ticket = OpenCall::end(*self, outcome).map_err(into_error)?;
            // A failed sync is retried in the background.
            let _ = log.wait_durable(ticket).await;
            Ok(())
        })
    }
}

fn into_error(error: AuditError) -> Error {
    Error::from(&error)
}

/// A queued begin that is not written yet. If its caller goes away, the call is recorded as cancelled.
struct QueuedBegin {
    number: u64,
    open_record: Option<OpenCall>,
}

impl QueuedBegin {
    fn written(&mut self) -> Result<OpenCall, AuditError> {
        self.write().unwrap_or(Err(AuditError::Closed))
    }

    fn write(&mut self) -> Option<Result<OpenCall, AuditError>> {
        let mut open_record = self.open_record.take()?;
        let written = open_record.log.shared.write_until(self.number);
        sync::mark_dirty(&open_record.log.shared);
        Some(written.map(|ticket| {
            (open_record.ticket, open_record.is_written) = (ticket, true);
            open_record
        }))
    }
}

impl Drop for QueuedBegin {
    fn drop(&mut self) {
        drop(self.write());
    }
}

/// A queued end that is not written yet.
struct QueuedEnd<'a> {
    log: &'a FileAuditLog,
    number: Option<u64>,
}

impl QueuedEnd<'_> {
    fn written(&mut self) -> Result<Ticket, AuditError> {
        self.write().unwrap_or(Err(AuditError::Closed))
    }

    fn write(&mut self) -> Option<Result<Ticket, AuditError>> {
        let written = self.log.shared.write_until(self.number.take()?);
        sync::mark_dirty(&self.log.shared);
        Some(written)
    }
}

impl Drop for QueuedEnd<'_> {
    fn drop(&mut self) {
        drop(self.write());
    }
}

/// Yields to the other ready tasks once.
async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
