//! The one thread that writes: it takes what has queued up, makes it one transaction, and answers after the commit.

use super::error::SqliteError;
use super::faults::{
    AFTER_CHANGE, AFTER_COMMIT, AFTER_SYNC, BEFORE_BEGIN, BEFORE_COMMIT, BETWEEN_ANSWERS, Fault, Faults,
    WOKEN,
};
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

/// Changes that share one commit at most.
const MAX_GROUP: usize = 512;

/// The longest that a group waits for company, and never longer than half of what the last sync took.
const MAX_GROUP_WAIT: Duration = Duration::from_micros(100);

/// Groups that go at once after one that waited in vain: not everyone comes back.
const SKIPPED_WAITS: u32 = 16;

/// How long another process may keep the file to itself before our callers are told.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// SQLite empties the log as it goes, unless readers overlap without a pause. Beyond this we make it wait for them.
const WAL_MAX: u64 = 64 << 20;

/// Commits between two looks at the log's size.
const WAL_CHECK_EVERY: u32 = 256;

pub struct Writer {
    pub connection: Connection,
    pub queue: mpsc::Receiver<WriteRequest>,
    pub faults: Arc<dyn Faults>,
    pub newest: Arc<NewestEvent>,
    pub counts: Arc<Counts>,
    pub stopped: Arc<AtomicBool>,
    pub log: PathBuf,
    /// What the connection is set to.
    pub synced: bool,
    pub commits: u32,
    /// How many asked at once when the last group was done: those in it, and those who had queued up meanwhile.
    pub callers: usize,
    /// How long the next synced group waits for as many.
    pub group_wait: Duration,
    /// Groups that do not wait, because the last one waited for nothing.
    pub skip_waits: u32,
}

pub enum WriteRequest {
    Write(Durability, Box<dyn WriteOp>),
    Close,
}

/// A change with its caller's ear, its result type erased.
pub trait WriteOp: Send {
    /// Whether it promises to fail only before its first write.
    fn checked(&self) -> bool;

    /// Runs at most once. Gives the error when it failed and must be rolled back.
    fn apply(&mut self, connection: &Connection) -> Result<(), StoreError>;

    /// Fails it after all, whatever it gave.
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
        // A fault in one change must not take the store from everyone else.
        let result = catch_unwind(AssertUnwindSafe(|| change(connection).map_err(StoreError::from)))
            .unwrap_or_else(|_| Err(StoreError::Broken("a change of it panicked".into())));
        let made = result.as_ref().map(|_| ()).map_err(StoreError::clone);
        self.state = State::Done(result);
        made
    }

    fn fail(&mut self, error: StoreError) {
        self.state = State::Done(Err(error));
    }

    fn answer(self: Box<Self>) {
        if let State::Done(result) = self.state {
            // No one listening is fine: the change is made all the same.
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

    /// Without the checkpoint that closing would make: a killed process makes none.
    fn crash(mut self) {
        self.stopped.store(true, Ordering::Release);
        self.queue.close();
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    /// One group. False when the last request was to close.
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

    /// Those who were answered just now are about to ask again. Without a moment's patience the first of them would get
    /// a sync for itself, or they would fall into two halves that wait for each other's sync.
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

    /// Takes what is queued. False when that ended with the request to close.
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

    /// A change that fails takes back nothing but itself: it has a savepoint of its own, or has written nothing yet.
    fn apply(&mut self, change: &mut dyn WriteOp) -> Result<(), GroupError> {
        let (pending, written) = (self.newest.pending(), self.connection.total_changes());
        let savepoint = !change.checked();
        if savepoint {
            self.execute("SAVEPOINT change")?;
        }
        let mut made = change.apply(&self.connection);
        match self.fault_point(AFTER_CHANGE) {
            Ok(()) => {}
            Err(GroupError::Failed(error)) if savepoint => {
                change.fail(error.clone());
                made = Err(error);
            }
            Err(stop) => return Err(stop),
        }
        if let Err(error) = made {
            // SQLite itself may give up the whole transaction, as it does when the disk is full.
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

    /// Only the start is tried again, never a change: it may have been paid for with side effects of its own.
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
            // FULL syncs the log at each commit, NORMAL only before a checkpoint.
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
        self.counts.forget();
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
        if std::fs::metadata(&self.log).is_ok_and(|log| log.len() > WAL_MAX) {
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

    /// A point where nothing can fail: before the group is known, and after the commit.
    fn crash_point(&self, point: &'static str) -> Result<(), GroupError> {
        self.fault_point(point).map_err(|_| GroupError::Crash)
    }
}
