//! One SQLite file with a single writer thread (group commit) and a few reader threads.

use super::committer::{Committer, Shared};
use super::error::SqliteError;
use super::faults::Faults;
use super::file::DatabaseFile;
use super::jobs::count::Counts;
use super::migrate::migrate;
use super::newest_event::NewestEvent;
use super::reader::{self, ReadRequest, Reader};
use super::writer::{self, Grouping, WriteOp, WriteRequest, Writer};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use toolyard_engine::stores::{Durability, StoreError};

/// Capacity of the write queue and of the read queue; callers wait while a queue is full.
const QUEUE_CAPACITY: usize = 1024;

const READERS: usize = 2;

/// Default time budget of a query.
const READ_BUDGET: Duration = Duration::from_secs(10);

/// How long SQLite waits for a lock of another process.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Prepared statements cached per connection.
const STATEMENT_CACHE_SIZE: usize = 128;

/// WAL pages after which a checkpoint is run: 16 MiB.
pub const CHECKPOINT_PAGES: i32 = 4000;

/// The value of `PRAGMA auto_vacuum` that lets free pages be given back.
const INCREMENTAL: i64 = 2;

/// Size to which SQLite truncates the WAL after a checkpoint.
const WAL_SIZE_LIMIT: i64 = 16 << 20;

/// Several processes may have the same file open, each with a `Database` of its own.
pub struct Database {
    writer: mpsc::Sender<WriteRequest>,
    /// Owned by the writer's thread, so that the connection closes with it.
    committer: Weak<Mutex<Committer>>,
    readers: mpsc::Sender<ReadRequest>,
    newest: Arc<NewestEvent>,
    counts: Arc<Counts>,
    stopped: Arc<AtomicBool>,
    /// Closed when the writer's thread has ended.
    writing: watch::Receiver<()>,
    /// Closed when the last reader's thread has ended.
    reading: watch::Receiver<()>,
}

impl Database {
    /// Opens or creates the file and migrates its tables. Blocks the thread.
    pub fn open(path: &Path, faults: Arc<dyn Faults>) -> Result<Arc<Database>, StoreError> {
        let connection = open_writable(path)?;
        let (writer, changes) = mpsc::channel(QUEUE_CAPACITY);
        let (readers, read_requests) = mpsc::channel(QUEUE_CAPACITY);
        let newest = Arc::new(NewestEvent::default());
        let counts = Arc::new(Counts::default());
        let stopped = Arc::new(AtomicBool::new(false));
        let (writes, writing) = watch::channel(());
        let (reads, reading) = watch::channel(());
        let shared =
            Shared { faults, newest: newest.clone(), counts: counts.clone(), stopped: stopped.clone() };
        let committer = Arc::new(Mutex::new(Committer::new(connection, DatabaseFile::of(path)?, shared)?));
        let weak = Arc::downgrade(&committer);
        let thread = Writer { queue: changes, committer, grouping: Grouping::default() };
        spawn("yard-writer", writes, move || thread.run())?;
        let read_requests = Arc::new(Mutex::new(read_requests));
        for _ in 0..READERS {
            let thread = Reader { file: DatabaseFile::of(path)?, queue: read_requests.clone() };
            spawn("yard-reader", reads.clone(), move || thread.run())?;
        }
        Ok(Arc::new(Database { writer, committer: weak, readers, newest, counts, stopped, writing, reading }))
    }

    /// Runs `change` in a transaction and returns its result after the commit. It runs at most once and is
    /// rolled back if it fails. It must not begin or end a transaction itself.
    ///
    /// Once this has been polled, the change may be applied even if the future is dropped.
    pub async fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.submit(durability, false, change).await
    }

    /// [`Database::write`] for a change that completes all its checks before its first write. It runs without
    /// a savepoint, which saves a quarter of the cost of a small change. If it fails after a write, as on a
    /// full disk, its whole group fails.
    pub async fn write_checked<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.submit(durability, true, change).await
    }

    /// [`Database::write_checked`] for a small change. While no other write waits, and a sync is fast, it runs on the
    /// caller's thread: two switches of threads would cost as much as the change.
    pub async fn write_small<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let write = Box::new(writer::TypedWrite::new(change, true, reply));
        if let Some(write) = self.write_here(write, durability == Durability::Synced) {
            self.send(WriteRequest::Write(durability, write)).await?;
        }
        answer.await.map_err(|_| StoreError::Stopped)?
    }

    /// Returns the write if it must wait.
    fn write_here(&self, write: Box<dyn WriteOp>, synced: bool) -> Option<Box<dyn WriteOp>> {
        let Some(committer) = self.committer.upgrade() else { return Some(write) };
        let mut committer = match committer.try_lock() {
            Ok(committer) => committer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Some(write),
        };
        if !committer.is_free(synced) || self.writer.capacity() < QUEUE_CAPACITY {
            return Some(write);
        }
        let left = committer.commit_here(write, synced);
        // A full queue has a write, which is followed by a checkpoint too.
        if committer.is_stopped() {
            let _ = self.writer.try_send(WriteRequest::Close);
        } else if committer.is_checkpoint_due() {
            let _ = self.writer.try_send(WriteRequest::Checkpoint);
        }
        left
    }

    /// Runs `query` on a snapshot of the database.
    pub async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_within(READ_BUDGET, query).await
    }

    /// `StoreError::Budget` when the query takes longer; waiting for a free reader does not count.
    pub async fn read_within<T: Send + 'static>(
        &self,
        budget: Duration,
        query: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        let (reply, answer) = oneshot::channel();
        let request = ReadRequest::Query(Box::new(reader::TypedQuery { query, budget, reply }));
        self.readers.send(request).await.map_err(|_| StoreError::Stopped)?;
        answer.await.map_err(|_| StoreError::Stopped)?
    }

    /// Drains the queues, checkpoints the WAL and ends the threads. Later requests fail with `Stopped`.
    pub async fn close(&self) {
        // Readers first: SQLite removes the WAL only when the last connection closes.
        for _ in 0..READERS {
            let _ = self.readers.send(ReadRequest::Close).await;
        }
        wait_closed(self.reading.clone()).await;
        let _ = self.writer.send(WriteRequest::Close).await;
        wait_closed(self.writing.clone()).await;
    }

    async fn submit<T: Send + 'static>(
        &self,
        durability: Durability,
        checked: bool,
        change: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let request =
            WriteRequest::Write(durability, Box::new(writer::TypedWrite::new(change, checked, reply)));
        self.send(request).await?;
        answer.await.map_err(|_| StoreError::Stopped)?
    }

    async fn send(&self, request: WriteRequest) -> Result<(), StoreError> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        self.writer.send(request).await.map_err(|_| StoreError::Stopped)
    }

    pub(super) fn newest(&self) -> &Arc<NewestEvent> {
        &self.newest
    }

    pub(super) fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }
}

/// Opens or creates the file and migrates its tables.
pub fn open_writable(path: &Path) -> Result<Connection, SqliteError> {
    create(path)?;
    let mut connection = connect(path)?;
    // In a new file pages of removed rows can be given back; an older file changes when it is compacted.
    connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
    enable_wal(&connection)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Gives all free pages back to the file system and empties the WAL. Other processes may use the file meanwhile.
pub fn compact(path: &Path) -> Result<(), StoreError> {
    let compact = || -> Result<(), SqliteError> {
        let connection = connect(path)?;
        let mode: i64 = connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0))?;
        if mode == INCREMENTAL {
            incremental_vacuum(&connection, "")?;
        } else {
            connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
            connection.execute_batch("VACUUM")?;
        }
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    };
    compact().map_err(|SqliteError(error)| error)
}

/// Gives free pages back: each row of the statement is a page.
pub fn incremental_vacuum(connection: &Connection, pages: &str) -> Result<(), SqliteError> {
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum{pages}"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Opens a connection with the settings shared by the writer and the readers.
pub fn connect(path: &Path) -> Result<Connection, SqliteError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", WAL_SIZE_LIMIT)?;
    Ok(connection)
}

/// Creates a file that only its owner may read; SQLite gives the WAL and the shared memory the same mode.
///
/// An existing file is not opened here: closing it would drop the locks that this process holds on it.
fn create(path: &Path) -> Result<(), StoreError> {
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => Err(StoreError::Full),
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(StoreError::Broken(format!("{} cannot be created: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

fn enable_wal(connection: &Connection) -> Result<(), SqliteError> {
    let since = Instant::now();
    loop {
        let mode: rusqlite::Result<String> =
            connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => {
                return Err(StoreError::Broken(
                    "this file system does not support shared memory; choose another one with [state] dir"
                        .into(),
                )
                .into());
            }
            // The busy timeout does not apply here when another process opens the new file at the same time.
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && since.elapsed() < BUSY_TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn wait_closed(mut threads: watch::Receiver<()>) {
    while threads.changed().await.is_ok() {}
}

fn spawn(
    name: &str,
    alive: watch::Sender<()>,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), StoreError> {
    let run = move || {
        work();
        drop(alive);
    };
    let started = std::thread::Builder::new().name(name.into()).spawn(run);
    started.map(drop).map_err(|error| StoreError::Broken(format!("cannot start a thread: {error}")))
}
