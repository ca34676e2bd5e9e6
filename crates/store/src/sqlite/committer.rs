//! The connection for writes: one transaction per group. It is used by the writer thread and, for small writes while
//! that thread is idle, by the callers' own threads.

use super::database::{BUSY_TIMEOUT, CHECKPOINT_PAGES, open_writable};
use super::error::SqliteError;
use super::faults::{AFTER_CHANGE, AFTER_COMMIT, AFTER_SYNC, BEFORE_BEGIN, BEFORE_COMMIT, Fault, Faults};
use super::file::{DatabaseFile, Found};
use super::jobs::count::Counts;
use super::newest_event::NewestEvent;
use super::writer::WriteOp;
use rusqlite::{Connection, ErrorCode, config::DbConfig};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};
use toolyard_engine::stores::StoreError;

/// How long to wait for the write lock of another process before the group fails.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// A sync that takes less is no reason to switch threads.
const FAST_SYNC: Duration = Duration::from_micros(50);

/// WAL size that forces a checkpoint that waits for readers; else overlapping readers let the WAL grow.
const WAL_MAX: u64 = 64 << 20;

pub struct Committer {
    connection: Connection,
    /// Pages in the WAL after the last commit.
    wal_pages: Arc<AtomicI32>,
    faults: Arc<dyn Faults>,
    newest: Arc<NewestEvent>,
    counts: Arc<Counts>,
    stopped: Arc<AtomicBool>,
    file: DatabaseFile,
    wal: PathBuf,
    /// Whether the connection is set to sync each commit.
    synced: bool,
    /// Whether it may wait for the lock of another process.
    may_wait: bool,
    /// How long the last synced commit took.
    last_sync: Duration,
    /// Several callers write at the same time, so that groups are worth it.
    pub has_concurrent_writes: bool,
}

/// What a [`Committer`] shares with its database.
pub struct Shared {
    pub faults: Arc<dyn Faults>,
    pub newest: Arc<NewestEvent>,
    pub counts: Arc<Counts>,
    pub stopped: Arc<AtomicBool>,
}

/// Why a group was not committed, or not answered.
pub enum GroupError {
    Crash,
    /// Another process holds the write lock, and this thread must not wait for it.
    Locked,
    Failed(StoreError),
}

impl From<rusqlite::Error> for GroupError {
    fn from(error: rusqlite::Error) -> GroupError {
        GroupError::Failed(SqliteError::from(error).0)
    }
}

impl Committer {
    pub fn new(connection: Connection, file: DatabaseFile, shared: Shared) -> Result<Committer, SqliteError> {
        let Shared { faults, newest, counts, stopped } = shared;
        let mut wal = file.path.as_os_str().to_owned();
        wal.push("-wal");
        let mut committer = Committer {
            connection,
            wal_pages: Arc::default(),
            faults,
            newest,
            counts,
            stopped,
            file,
            wal: wal.into(),
            synced: true,
            may_wait: true,
            last_sync: Duration::MAX,
            has_concurrent_writes: false,
        };
        committer.watch_wal()?;
        Ok(committer)
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Whether a caller may commit on its own thread, which a sync must not block.
    pub fn is_free(&self, synced: bool) -> bool {
        let is_fast = !synced || (self.last_sync < FAST_SYNC && !self.has_concurrent_writes);
        is_fast && !self.is_stopped() && !self.faults.is_held()
    }

    pub fn stop(&mut self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// The connection will close without a checkpoint, as that of a killed process.
    pub fn crash(&mut self) {
        self.stop();
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    pub fn is_checkpoint_due(&self) -> bool {
        self.wal_pages.load(Ordering::Relaxed) >= CHECKPOINT_PAGES
    }

    /// Takes long on a slow disk, so only the writer thread does it.
    pub fn checkpoint_if_due(&mut self) {
        if self.is_checkpoint_due() {
            self.wal_pages.store(0, Ordering::Relaxed);
            let is_large = std::fs::metadata(&self.wal).is_ok_and(|wal| wal.len() > WAL_MAX);
            let mode = if is_large { "TRUNCATE" } else { "PASSIVE" };
            let sql = format!("PRAGMA wal_checkpoint({mode})");
            let _ = self.connection.query_row(&sql, [], |_| Ok(()));
        }
    }

    /// Instead of the checkpoint that SQLite would run within a commit.
    fn watch_wal(&mut self) -> Result<(), SqliteError> {
        let pages = self.wal_pages.clone();
        self.connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, now| {
            pages.store(now, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(())
    }

    /// Commits a group; how long the commit itself took.
    pub fn commit(&mut self, group: &mut [Box<dyn WriteOp>], synced: bool) -> Result<Duration, GroupError> {
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
        let taken = since.elapsed();
        self.newest.commit();
        if synced {
            self.last_sync = taken;
            self.crash_point(AFTER_SYNC)?;
        }
        Ok(taken)
    }

    /// Commits one write on the thread of its caller, and answers it. Returns it when another process holds the lock:
    /// the caller's thread must not wait.
    pub fn commit_here(&mut self, change: Box<dyn WriteOp>, synced: bool) -> Option<Box<dyn WriteOp>> {
        let mut group = [change];
        let _ = self.connection.busy_timeout(Duration::ZERO);
        self.may_wait = false;
        let committed = self.commit(&mut group, synced);
        let committed = committed.and_then(|_| self.crash_point(AFTER_COMMIT));
        self.may_wait = true;
        let _ = self.connection.busy_timeout(BUSY_TIMEOUT);
        let [mut change] = group;
        match committed {
            Ok(()) => {}
            Err(GroupError::Locked) => return Some(change),
            Err(GroupError::Crash) => {
                self.crash();
                return None;
            }
            Err(GroupError::Failed(error)) => {
                self.roll_back();
                change.fail(error);
            }
        }
        change.answer();
        None
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
        self.watch_wal().map_err(|SqliteError(error)| GroupError::Failed(error))
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
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                    if !self.may_wait {
                        return Err(GroupError::Locked);
                    }
                    if since.elapsed() >= LOCK_TIMEOUT {
                        return Err(error.into());
                    }
                }
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

    pub fn roll_back(&self) {
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

    fn fault_point(&self, point: &'static str) -> Result<(), GroupError> {
        match self.faults.at(point) {
            Fault::None => Ok(()),
            Fault::Crash => Err(GroupError::Crash),
            Fault::Fail => Err(GroupError::Failed(StoreError::Full)),
        }
    }

    /// Here every fault is a crash, because nothing can fail: before the group is known, after the commit.
    pub fn crash_point(&self, point: &'static str) -> Result<(), GroupError> {
        self.fault_point(point).map_err(|_| GroupError::Crash)
    }
}
