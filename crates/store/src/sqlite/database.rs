//! One SQLite file: changes go through one writer that commits them in groups, queries through a few readers.

use super::error::SqliteError;
use super::faults::Faults;
use super::jobs::count::Counts;
use super::migrate::migrate;
use super::newest_event::NewestEvent;
use super::reader::{self, ReadRequest, Reader};
use super::writer::{self, WriteRequest, Writer};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use toolyard_engine::stores::{Durability, StoreError};

/// Changes and queries that wait; beyond it callers wait for room.
const QUEUE_CAPACITY: usize = 1024;

const READERS: usize = 2;

/// A query without a budget of its own.
const READ_BUDGET: Duration = Duration::from_secs(10);

/// How long SQLite itself waits for another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Statements that each connection keeps prepared.
const STATEMENT_CACHE_SIZE: usize = 128;

/// Pages of log after which its content moves into the file: 16 MiB.
const CHECKPOINT_PAGES: i64 = 4000;

/// What SQLite leaves of the log's file after that.
const WAL_SIZE_LIMIT: i64 = 16 << 20;

/// Several processes may have the same file open, each with a `Database` of its own.
pub struct Database {
    writer: mpsc::Sender<WriteRequest>,
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
    /// Opens or makes the file and brings its tables up to date. Blocks for as long as that takes.
    pub fn open(path: &Path, faults: Arc<dyn Faults>) -> Result<Arc<Database>, StoreError> {
        create(path)?;
        let mut connection = connect(path)?;
        enable_wal(&connection)?;
        migrate(&mut connection)?;
        let (writer, changes) = mpsc::channel(QUEUE_CAPACITY);
        let (readers, read_requests) = mpsc::channel(QUEUE_CAPACITY);
        let newest = Arc::new(NewestEvent::default());
        let counts = Arc::new(Counts::default());
        let stopped = Arc::new(AtomicBool::new(false));
        let (writes, writing) = watch::channel(());
        let (reads, reading) = watch::channel(());
        let thread = Writer {
            connection,
            queue: changes,
            faults,
            newest: newest.clone(),
            counts: counts.clone(),
            stopped: stopped.clone(),
            log: wal_path(path),
            synced: true,
            commits: 0,
            callers: 0,
            group_wait: Duration::ZERO,
            skip_waits: 0,
        };
        spawn("yard-writer", writes, move || thread.run())?;
        let read_requests = Arc::new(Mutex::new(read_requests));
        for _ in 0..READERS {
            let thread = Reader { path: path.to_owned(), queue: read_requests.clone() };
            spawn("yard-reader", reads.clone(), move || thread.run())?;
        }
        Ok(Arc::new(Database { writer, readers, newest, counts, stopped, writing, reading }))
    }

    /// Runs `change` in a transaction and gives its result once that is committed. The change runs at most once; if
    /// it fails, nothing of it stays. It must not begin or end a transaction itself.
    ///
    /// Once this has been polled the change may be made even if the future is dropped.
    pub async fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.submit(durability, false, change).await
    }

    /// [`Database::write`] for a change that makes sure of everything before it writes its first row. It needs no
    /// savepoint, a quarter of the price of a small change. If it fails after it has written all the same, as on a full
    /// disk, so does its whole group.
    pub async fn write_checked<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.submit(durability, true, change).await
    }

    /// Runs `query` on one moment of the database: all of it sees the same rows.
    pub async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_within(READ_BUDGET, query).await
    }

    /// `StoreError::Budget` when it takes longer; waiting for a free reader does not count.
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

    /// Finishes what is queued, moves the log into the file and ends the threads. Afterwards everything is `Stopped`.
    pub async fn close(&self) {
        // Readers first: SQLite puts the log away only with the last connection.
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
        self.writer.send(request).await.map_err(|_| StoreError::Stopped)?;
        answer.await.map_err(|_| StoreError::Stopped)?
    }

    pub(super) fn newest(&self) -> &Arc<NewestEvent> {
        &self.newest
    }

    pub(super) fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }
}

/// A connection as both the writer and the readers need it.
pub fn connect(path: &Path) -> Result<Connection, SqliteError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", WAL_SIZE_LIMIT)?;
    Ok(connection)
}

/// For the owner alone; SQLite gives its log and shared memory the same mode.
///
/// An existing file is not opened here: closing it would drop the locks that this process holds on it.
fn create(path: &Path) -> Result<(), StoreError> {
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => Err(StoreError::Full),
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(StoreError::Broken(format!("{} cannot be made: {error}", path.display())))
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
                    "this file system cannot share memory between processes; choose another with [state] dir"
                        .into(),
                )
                .into());
            }
            // SQLite does not wait here by itself when another process opens the new file at the same moment.
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

fn wal_path(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
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
    started.map(drop).map_err(|error| StoreError::Broken(format!("no thread could be started: {error}")))
}
