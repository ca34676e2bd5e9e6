//! The one thread that writes: it takes what has queued up, makes it one transaction, and answers after the commit.

use super::faults::{
    AFTER_CHANGE, AFTER_COMMIT, AFTER_SYNC, BEFORE_BEGIN, BEFORE_COMMIT, BETWEEN_ANSWERS, Fault, Faults,
    WOKEN,
};
use super::jobs::count::Counts;
use super::newest::Newest;
use crate::stores::{Durability, StoreError};
use rusqlite::{Connection, ErrorCode, config::DbConfig};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Changes that share one commit at most.
const GROUP: usize = 512;

/// The longest that a group waits for company, and never longer than half of what the last sync took.
const MOMENT: Duration = Duration::from_micros(100);

/// Groups that go at once after one that waited in vain: not everyone comes back.
const ALONE: u32 = 16;

/// How long another process may keep the file to itself before our callers are told.
const PATIENCE: Duration = Duration::from_secs(30);

/// SQLite empties the log as it goes, unless readers overlap without a pause. Beyond this we make it wait for them.
const LOG_MAX: u64 = 64 << 20;

/// Commits between two looks at the log's size.
const LOG_LOOK: u32 = 256;

pub struct Writer {
    pub connection: Connection,
    pub queue: mpsc::Receiver<Request>,
    pub faults: Arc<dyn Faults>,
    pub newest: Arc<Newest>,
    pub counts: Arc<Counts>,
    pub stopped: Arc<AtomicBool>,
    pub log: PathBuf,
    /// What the connection is set to.
    pub synced: bool,
    pub commits: u32,
    /// How many asked at once when the last group was done: those in it, and those who had queued up meanwhile.
    pub callers: usize,
    /// How long the next synced group waits for as many.
    pub patience: Duration,
    /// Groups that do not wait, because the last one waited for nothing.
    pub alone: u32,
}

pub enum Request {
    Change(Durability, Box<dyn Change>),
    Close,
}

/// A change with its caller's ear, its result type erased.
pub trait Change: Send {
    /// Whether it promises to fail only before its first write.
    fn checked(&self) -> bool;

    /// Runs at most once. Gives the error when it failed and must be rolled back.
    fn apply(&mut self, connection: &Connection) -> Result<(), StoreError>;

    /// Fails it after all, whatever it gave.
    fn refuse(&mut self, error: StoreError);

    fn answer(self: Box<Self>);
}

/// The only implementation of [`Change`].
pub struct Asked<T, F> {
    state: State<T, F>,
    checked: bool,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

enum State<T, F> {
    Waiting(F),
    Done(Result<T, StoreError>),
    Running,
}

impl<T, F> Asked<T, F> {
    pub fn new(change: F, checked: bool, reply: oneshot::Sender<Result<T, StoreError>>) -> Asked<T, F> {
        Asked { state: State::Waiting(change), checked, reply }
    }
}

impl<T, F> Change for Asked<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send,
{
    fn checked(&self) -> bool {
        self.checked
    }

    fn apply(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let State::Waiting(change) = std::mem::replace(&mut self.state, State::Running) else {
            return Err(StoreError::Stopped);
        };
        // A fault in one change must not take the store from everyone else.
        let result = catch_unwind(AssertUnwindSafe(|| change(connection)))
            .unwrap_or_else(|_| Err(StoreError::Broken("a change of it panicked".into())));
        let made = result.as_ref().map(|_| ()).map_err(StoreError::clone);
        self.state = State::Done(result);
        made
    }

    fn refuse(&mut self, error: StoreError) {
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
enum Stop {
    Crash,
    Failed(StoreError),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Stop {
        Stop::Failed(error.into())
    }
}

impl Writer {
    pub fn run(mut self) {
        while let Some(request) = self.queue.blocking_recv() {
            let Request::Change(durability, change) = request else { break };
            match self.turn(durability, change) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => return self.die(),
            }
        }
        self.stopped.store(true, Ordering::Release);
    }

    /// Without the checkpoint that closing would make: a killed process makes none.
    fn die(mut self) {
        self.stopped.store(true, Ordering::Release);
        self.queue.close();
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    /// One group. False when the last request was to close.
    fn turn(&mut self, durability: Durability, first: Box<dyn Change>) -> Result<bool, Stop> {
        self.past(WOKEN)?;
        let mut group = vec![first];
        let mut synced = durability == Durability::Synced;
        let mut open = self.gather(&mut group, &mut synced);
        if open && synced && group.len() < self.callers {
            open = self.wait_for_company(&mut group, &mut synced);
        }
        match self.commit(&mut group, synced) {
            Ok(()) => {
                self.past(AFTER_COMMIT)?;
            }
            Err(Stop::Crash) => return Err(Stop::Crash),
            Err(Stop::Failed(error)) => {
                self.roll_back();
                group.iter_mut().for_each(|change| change.refuse(error.clone()));
            }
        }
        self.callers = group.len() + self.queue.len();
        for (i, change) in group.into_iter().enumerate() {
            if i > 0 {
                self.past(BETWEEN_ANSWERS)?;
            }
            change.answer();
        }
        self.bound_log();
        Ok(open)
    }

    /// Those who were answered just now are about to ask again. Without a moment's patience the first of them would get
    /// a sync for itself, or they would fall into two halves that wait for each other's sync.
    fn wait_for_company(&mut self, group: &mut Vec<Box<dyn Change>>, synced: &mut bool) -> bool {
        if self.alone > 0 {
            self.alone -= 1;
            return true;
        }
        let (first, since, mut open) = (group.len(), Instant::now(), true);
        while open && group.len() < self.callers.min(GROUP) && since.elapsed() < self.patience {
            std::thread::sleep(self.patience / 4);
            open = self.gather(group, synced);
        }
        if group.len() == first {
            self.alone = ALONE;
        }
        open
    }

    /// Takes what is queued. False when that ended with the request to close.
    fn gather(&mut self, group: &mut Vec<Box<dyn Change>>, synced: &mut bool) -> bool {
        while group.len() < GROUP {
            match self.queue.try_recv() {
                Ok(Request::Change(durability, change)) => {
                    *synced |= durability == Durability::Synced;
                    group.push(change);
                }
                Ok(Request::Close) => return false,
                Err(_) => break,
            }
        }
        true
    }

    fn commit(&mut self, group: &mut [Box<dyn Change>], synced: bool) -> Result<(), Stop> {
        self.point(BEFORE_BEGIN)?;
        self.set_synced(synced)?;
        self.begin()?;
        for change in group {
            self.apply(change.as_mut())?;
        }
        self.counts.write(&self.connection)?;
        self.point(BEFORE_COMMIT)?;
        let since = Instant::now();
        self.execute("COMMIT")?;
        self.newest.commit();
        if synced {
            self.patience = MOMENT.min(since.elapsed() / 2);
            self.past(AFTER_SYNC)?;
        }
        Ok(())
    }

    /// A change that fails takes back nothing but itself: it has a savepoint of its own, or has written nothing yet.
    fn apply(&mut self, change: &mut dyn Change) -> Result<(), Stop> {
        let (pending, written) = (self.newest.pending(), self.connection.total_changes());
        let savepoint = !change.checked();
        if savepoint {
            self.execute("SAVEPOINT change")?;
        }
        let mut made = change.apply(&self.connection);
        match self.point(AFTER_CHANGE) {
            Ok(()) => {}
            Err(Stop::Failed(error)) if savepoint => {
                change.refuse(error.clone());
                made = Err(error);
            }
            Err(stop) => return Err(stop),
        }
        if let Err(error) = made {
            // SQLite itself may give up the whole transaction, as it does when the disk is full.
            let lost = self.connection.is_autocommit();
            if lost || (!savepoint && self.connection.total_changes() != written) {
                return Err(Stop::Failed(error));
            }
            self.newest.take_back(pending);
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
    fn begin(&self) -> Result<(), Stop> {
        let since = Instant::now();
        loop {
            match self.execute("BEGIN IMMEDIATE") {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && since.elapsed() < PATIENCE => {}
                result => return result.map_err(Stop::from),
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
        self.newest.take_back(0);
        self.counts.forget();
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn bound_log(&mut self) {
        self.commits += 1;
        if self.commits < LOG_LOOK {
            return;
        }
        self.commits = 0;
        if std::fs::metadata(&self.log).is_ok_and(|log| log.len() > LOG_MAX) {
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }

    fn point(&self, point: &'static str) -> Result<(), Stop> {
        match self.faults.at(point) {
            Fault::None => Ok(()),
            Fault::Crash => Err(Stop::Crash),
            Fault::Fail => Err(Stop::Failed(StoreError::Full)),
        }
    }

    /// A point where nothing can fail: before the group is known, and after the commit.
    fn past(&self, point: &'static str) -> Result<(), Stop> {
        self.point(point).map_err(|_| Stop::Crash)
    }
}
