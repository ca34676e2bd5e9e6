//! The writer thread: group commit of all queued writes in one transaction, with responses after the commit.

use super::committer::{Committer, GroupError};
use super::error::SqliteError;
use super::faults::{AFTER_COMMIT, BETWEEN_ANSWERS, WOKEN};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use toolyard_engine::stores::{Durability, StoreError};

/// Maximum number of writes per commit.
const MAX_GROUP: usize = 512;

/// Longest wait for more writes to join a group; also at most half the duration of the last sync.
const MAX_GROUP_WAIT: Duration = Duration::from_micros(100);

/// Number of groups that do not wait after one that waited in vain.
const SKIPPED_WAITS: u32 = 16;

pub struct Writer {
    pub queue: mpsc::Receiver<WriteRequest>,
    pub committer: Arc<Mutex<Committer>>,
    pub grouping: Grouping,
}

/// How writes are grouped.
#[derive(Default)]
pub struct Grouping {
    /// Concurrent writes at the end of the last group: those in it, and those queued meanwhile.
    callers: usize,
    /// How long the next synced group waits for that many writes.
    wait: Duration,
    /// Remaining groups that do not wait, because an earlier one waited in vain.
    skip_waits: u32,
}

pub enum WriteRequest {
    Write(Durability, Box<dyn WriteOp>),
    /// A caller's own commit has filled the WAL.
    Checkpoint,
    Close,
}

/// A write with its reply channel; the result type is erased.
pub trait WriteOp: Send {
    /// Whether it promises to fail only before its first write.
    fn checked(&self) -> bool;

    /// Runs at most once. Returns the error if it failed and must be rolled back.
    fn apply(&mut self, connection: &Connection) -> Result<(), StoreError>;

    /// Replaces the result with an error.
    fn fail(&mut self, error: StoreError);

    fn answer(self: Box<Self>);
}

/// The only implementation of [`WriteOp`].
pub struct TypedWrite<T, F> {
    state: State<T, F>,
    checked: bool,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

enum State<T, F> {
    Waiting(F),
    Done(Result<T, StoreError>),
    Running,
}

impl<T, F> TypedWrite<T, F> {
    pub fn new(change: F, checked: bool, reply: oneshot::Sender<Result<T, StoreError>>) -> TypedWrite<T, F> {
        TypedWrite { state: State::Waiting(change), checked, reply }
    }
}

impl<T, F> WriteOp for TypedWrite<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, SqliteError> + Send,
{
    fn checked(&self) -> bool {
        self.checked
    }

    fn apply(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let State::Waiting(change) = std::mem::replace(&mut self.state, State::Running) else {
            return Err(StoreError::Stopped);
        };
        // A panic in one write must not stop the store for all callers.
        let result = catch_unwind(AssertUnwindSafe(|| change(connection).map_err(StoreError::from)))
            .unwrap_or_else(|_| Err(StoreError::Broken("a write panicked".into())));
        let applied = result.as_ref().map(|_| ()).map_err(StoreError::clone);
        self.state = State::Done(result);
        applied
    }

    fn fail(&mut self, error: StoreError) {
        self.state = State::Done(Err(error));
    }

    fn answer(self: Box<Self>) {
        if let State::Done(result) = self.state {
            // The caller may have gone away; the change stays applied.
            let _ = self.reply.send(result);
        }
    }
}

impl Writer {
    pub fn run(mut self) {
        while let Some(request) = self.queue.blocking_recv() {
            let is_open = match request {
                WriteRequest::Write(durability, change) => self.run_group(durability, change),
                WriteRequest::Checkpoint => {
                    lock(&self.committer).checkpoint_if_due();
                    Ok(true)
                }
                WriteRequest::Close => Ok(false),
            };
            match is_open {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    self.queue.close();
                    return lock(&self.committer).crash();
                }
            }
        }
        lock(&self.committer).stop();
    }

    /// Runs one group. False after a close request.
    fn run_group(&mut self, durability: Durability, first: Box<dyn WriteOp>) -> Result<bool, GroupError> {
        let committer = self.committer.clone();
        let mut committer = lock(&committer);
        committer.crash_point(WOKEN)?;
        let mut group = vec![first];
        let mut synced = durability == Durability::Synced;
        let mut open = self.gather(&mut group, &mut synced);
        if open && synced && group.len() < self.grouping.callers {
            open = self.wait_for_group(&mut group, &mut synced);
        }
        match committer.commit(&mut group, synced) {
            Ok(taken) => {
                if synced {
                    self.grouping.wait = MAX_GROUP_WAIT.min(taken / 2);
                }
                committer.crash_point(AFTER_COMMIT)?;
            }
            Err(GroupError::Failed(error)) => {
                committer.roll_back();
                group.iter_mut().for_each(|change| change.fail(error.clone()));
            }
            Err(stop) => return Err(stop),
        }
        committer.checkpoint_if_due();
        self.grouping.callers = group.len() + self.queue.len();
        committer.has_concurrent_writes = self.grouping.callers > 1;
        // A caller that was answered may commit its next write itself.
        drop(committer);
        for (i, change) in group.into_iter().enumerate() {
            if i > 0 {
                lock(&self.committer).crash_point(BETWEEN_ANSWERS)?;
            }
            change.answer();
        }
        Ok(open)
    }

    /// Callers that were just answered are likely to write again. Without a short wait, the first of them
    /// would get a sync of its own, or they would split into two groups that alternate.
    fn wait_for_group(&mut self, group: &mut Vec<Box<dyn WriteOp>>, synced: &mut bool) -> bool {
        if self.grouping.skip_waits > 0 {
            self.grouping.skip_waits -= 1;
            return true;
        }
        let (first, since, mut open) = (group.len(), Instant::now(), true);
        while open
            && group.len() < self.grouping.callers.min(MAX_GROUP)
            && since.elapsed() < self.grouping.wait
        {
            std::thread::sleep(self.grouping.wait / 4);
            open = self.gather(group, synced);
        }
        if group.len() == first {
            self.grouping.skip_waits = SKIPPED_WAITS;
        }
        open
    }

    /// Moves queued writes into the group. False after a close request.
    fn gather(&mut self, group: &mut Vec<Box<dyn WriteOp>>, synced: &mut bool) -> bool {
        while group.len() < MAX_GROUP {
            match self.queue.try_recv() {
                Ok(WriteRequest::Write(durability, change)) => {
                    *synced |= durability == Durability::Synced;
                    group.push(change);
                }
                // It follows this group.
                Ok(WriteRequest::Checkpoint) => {}
                Ok(WriteRequest::Close) => return false,
                Err(_) => break,
            }
        }
        true
    }
}

pub fn lock(committer: &Mutex<Committer>) -> MutexGuard<'_, Committer> {
    committer.lock().unwrap_or_else(PoisonError::into_inner)
}
