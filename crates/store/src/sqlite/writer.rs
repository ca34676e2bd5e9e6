//! The writer thread: group commit of all queued writes in one transaction, with responses after the commit.

use super::database::open_writable;
use super::error::SqliteError;
use super::faults::{
    AFTER_CHANGE, AFTER_COMMIT, AFTER_SYNC, BEFORE_BEGIN, BEFORE_COMMIT, BETWEEN_ANSWERS, Fault, Faults,
    WOKEN,
};
use super::file::{DatabaseFile, Found};
use super::jobs::count::Counts;
use super::newest_event::NewestEvent;
use rusqlite::{Connection, ErrorCode, config::DbConfig};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use toolyard_engine::stores::{Durability, StoreError};

/// Maximum number of writes per commit.
const MAX_GROUP: usize = 512;

/// Longest wait for more writes to join a group; also at most half the duration of the last sync.
const MAX_GROUP_WAIT: Duration = Duration::from_micros(100);

/// Number of groups that do not wait after one that waited in vain.
const SKIPPED_WAITS: u32 = 16;

/// How long to wait for the write lock of another process before the group fails.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// WAL size that forces a checkpoint that waits for readers; else overlapping readers let the WAL grow.
const WAL_MAX: u64 = 64 << 20;

/// Commits between two checks of the WAL size.
const WAL_CHECK_EVERY: u32 = 256;

pub struct Writer {
    pub connection: Connection,
    pub queue: mpsc::Receiver<WriteRequest>,
    pub faults: Arc<dyn Faults>,
    pub newest: Arc<NewestEvent>,
    pub counts: Arc<Counts>,
    pub stopped: Arc<AtomicBool>,
    pub file: DatabaseFile,
    pub wal: PathBuf,
    /// Whether the connection is set to sync each commit.
    pub synced: bool,
    pub commits: u32,
    /// Concurrent writes at the end of the last group: those in it, and those queued meanwhile.
    pub callers: usize,
    /// How long the next synced group waits for that many writes.
    pub group_wait: Duration,
    /// Remaining groups that do not wait, because an earlier one waited in vain.
    pub skip_waits: u32,
}

pub enum WriteRequest {
    Write(Durability, Box<dyn WriteOp>),
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

/// Why a group was not committed, or not answered.
enum GroupError {
    Crash,
    Failed(StoreError),
}

impl From<rusqlite::Error> for GroupError {
    fn from(error: rusqlite::Error) -> GroupError {
        GroupError::Failed(SqliteError::from(error).0)
    }
}

impl Writer {
    pub fn run(mut self) {
        while let Some(request) = self.queue.blocking_recv() {
            let WriteRequest::Write(durability, change) = request else { break };
            match self.run_group(durability, change) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => return self.crash(),
            }
        }
        self.stopped.store(true, Ordering::Release);
    }

    /// Closes without a checkpoint, as a killed process would.
    fn crash(mut self) {
        self.stopped.store(true, Ordering::Release);
        self.queue.close();
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    /// Runs one group. False after a close request.
    fn run_group(&mut self, durability: Durability, first: Box<dyn WriteOp>) -> Result<bool, GroupError> {
        self.crash_point(WOKEN)?;
        let mut group = vec![first];
        let mut synced = durability == Durability::Synced;
        let mut open = self.gather(&mut group, &mut synced);
        if open && synced && group.len() < self.callers {
            open = self.wait_for_group(&mut group, &mut synced);
        }
        match self.commit(&mut group, synced) {
            Ok(()) => {
                self.crash_point(AFTER_COMMIT)?;
            }
            Err(GroupError::Crash) => return Err(GroupError::Crash),
            Err(GroupError::Failed(error)) => {
                self.roll_back();
                group.iter_mut().for_each(|change| change.fail(error.clone()));
            }
        }
        self.callers = group.len() + self.queue.len();
        for (i, change) in group.into_iter().enumerate() {
            if i > 0 {
                self.crash_point(BETWEEN_ANSWERS)?;
            }
            change.answer();
        }
        self.limit_wal();
        Ok(open)
    }

    /// Callers that were just answered are likely to write again. Without a short wait, the first of them
    /// would get a sync of its own, or they would split into two groups that alternate.
    fn wait_for_group(&mut self, group: &mut Vec<Box<dyn WriteOp>>, synced: &mut bool) -> bool {
        if self.skip_waits > 0 {
            self.skip_waits -= 1;
            return true;
        }
        let (first, since, mut open) = (group.len(), Instant::now(), true);
        while open && group.len() < self.callers.min(MAX_GROUP) && since.elapsed() < self.group_wait {
            std::thread::sleep(self.group_wait / 4);
            open = self.gather(group, synced);
        }
        if group.len() == first {
            self.skip_waits = SKIPPED_WAITS;
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
                Ok(WriteRequest::Close) => return false,
                Err(_) => break,
            }
        }
        true
    }

    fn commit(&mut self, group: &mut [Box<dyn WriteOp>], synced: bool) -> Result<(), GroupError> {
        self.fault_point(BEFORE_BEGIN)?;
        self.follow_file()?;
        self.set_synced(synced)?;
        self.begin()?;
        for change in group {
            self.apply(change.as_mut())?;
        }
        self.counts.write(&self.connection)?;
        self.fault_point(BEFORE_COMMIT)?;
        let since = Instant::now();
        self.execute("COMMIT")?;
        self.newest.commit();
        if synced {
            self.group_wait = MAX_GROUP_WAIT.min(since.elapsed() / 2);
            self.crash_point(AFTER_SYNC)?;
        }
        Ok(())
    }

    /// Fails while the state folder is gone; opens the file again when there is another one.
    fn follow_file(&mut self) -> Result<(), GroupError> {
        if matches!(self.file.find().map_err(GroupError::Failed)?, Found::Same) {
            return Ok(());
        }
        // Closing must not remove the WAL of the other file, which has the same name.
        self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let opened = open_writable(&self.file.path).map_err(|SqliteError(error)| error);
        self.connection = opened.map_err(GroupError::Failed)?;
        self.file = DatabaseFile::of(&self.file.path).map_err(GroupError::Failed)?;
        self.synced = true;
        Ok(())
    }

    /// A write that fails is rolled back alone: it has its own savepoint, or has written nothing yet.
    fn apply(&mut self, change: &mut dyn WriteOp) -> Result<(), GroupError> {
        let (pending, written) = (self.newest.pending(), self.connection.total_changes());
        let savepoint = !change.checked();
        if savepoint {
            self.execute("SAVEPOINT change")?;
        }
        let mut applied = change.apply(&self.connection);
        match self.fault_point(AFTER_CHANGE) {
            Ok(()) => {}
            Err(GroupError::Failed(error)) if savepoint => {
                change.fail(error.clone());
                applied = Err(error);
            }
            Err(stop) => return Err(stop),
        }
        if let Err(error) = applied {
            // SQLite may have rolled back the whole transaction, as on a full disk.
            let lost = self.connection.is_autocommit();
            if lost || (!savepoint && self.connection.total_changes() != written) {
                return Err(GroupError::Failed(error));
            }
            self.newest.reset_pending(pending);
            if savepoint {
                self.execute("ROLLBACK TO change")?;
            }
        }
        if savepoint {
            self.execute("RELEASE change")?;
        }
        Ok(())
    }

    /// Only BEGIN is retried, never a write: it may have side effects of its own.
    fn begin(&self) -> Result<(), GroupError> {
        let since = Instant::now();
        loop {
            match self.execute("BEGIN IMMEDIATE") {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && since.elapsed() < LOCK_TIMEOUT => {}
                result => return result.map_err(GroupError::from),
            }
        }
    }

    fn set_synced(&mut self, synced: bool) -> rusqlite::Result<()> {
        if self.synced != synced {
            // FULL syncs the WAL at each commit, NORMAL only before a checkpoint.
            self.connection.pragma_update(None, "synchronous", if synced { "FULL" } else { "NORMAL" })?;
            self.synced = synced;
        }
        Ok(())
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            let _ = self.execute("ROLLBACK");
        }
        self.newest.reset_pending(0);
        self.counts.discard();
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn limit_wal(&mut self) {
        self.commits += 1;
        if self.commits < WAL_CHECK_EVERY {
            return;
        }
        self.commits = 0;
        if std::fs::metadata(&self.wal).is_ok_and(|wal| wal.len() > WAL_MAX) {
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }

    fn fault_point(&self, point: &'static str) -> Result<(), GroupError> {
        match self.faults.at(point) {
            Fault::None => Ok(()),
            Fault::Crash => Err(GroupError::Crash),
            Fault::Fail => Err(GroupError::Failed(StoreError::Full)),
        }
    }

    /// Here every fault is a crash, because nothing can fail: before the group is known, after the commit.
    fn crash_point(&self, point: &'static str) -> Result<(), GroupError> {
        self.fault_point(point).map_err(|_| GroupError::Crash)
    }
}
