//! Reader threads, each with its own read-only connection.

use super::database;
use super::error::SqliteError;
use super::file::{DatabaseFile, Found};
use rusqlite::{Connection, config::DbConfig};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use toolyard_engine::stores::StoreError;

/// SQLite VM steps between two deadline checks: about 10 µs.
const STEPS_PER_CHECK: i32 = 1000;

pub struct Reader {
    pub file: DatabaseFile,
    pub queue: Arc<Mutex<mpsc::Receiver<ReadRequest>>>,
}

pub enum ReadRequest {
    Query(Box<dyn Query>),
    Close,
}

/// A query with its reply channel; the result type is erased.
pub trait Query: Send {
    fn answer(self: Box<Self>, connection: Result<&mut Connection, SqliteError>);
}

/// The only implementation of [`Query`].
pub struct TypedQuery<T, F> {
    pub query: F,
    pub budget: Duration,
    pub reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Query for TypedQuery<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, SqliteError> + Send,
{
    fn answer(self: Box<Self>, connection: Result<&mut Connection, SqliteError>) {
        // The caller has gone away.
        if self.reply.is_closed() {
            return;
        }
        let TypedQuery { query, budget, reply } = *self;
        let result = connection.and_then(|connection| run_query(connection, budget, query));
        let _ = reply.send(result.map_err(|SqliteError(error)| match error {
            StoreError::Budget { .. } => StoreError::Budget { ms: budget.as_millis() as u64 },
            error => error,
        }));
    }
}

impl Reader {
    pub fn run(mut self) {
        let mut connection = None;
        loop {
            let request = self.queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
            match request {
                Some(ReadRequest::Query(query)) => match self.connect(&mut connection) {
                    Ok(connection) => query.answer(Ok(connection)),
                    Err(error) => query.answer(Err(error)),
                },
                Some(ReadRequest::Close) | None => return,
            }
        }
    }

    /// Opens the connection on first use: many processes never read.
    fn connect<'a>(&mut self, slot: &'a mut Option<Connection>) -> Result<&'a mut Connection, SqliteError> {
        if matches!(self.file.find()?, Found::Other) {
            *slot = None;
            self.file = DatabaseFile::of(&self.file.path)?;
        }
        let connection = match slot.take() {
            Some(connection) => connection,
            None => {
                let connection = database::connect(&self.file.path)?;
                connection.pragma_update(None, "query_only", true)?;
                // Only the writer runs checkpoints.
                connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
                connection
            }
        };
        Ok(slot.insert(connection))
    }
}

/// Runs the query in one read transaction: all its statements see the same snapshot.
fn run_query<T>(
    connection: &mut Connection,
    budget: Duration,
    query: impl FnOnce(&Connection) -> Result<T, SqliteError>,
) -> Result<T, SqliteError> {
    let deadline = Instant::now() + budget;
    connection.progress_handler(STEPS_PER_CHECK, Some(move || Instant::now() >= deadline))?;
    let begun = connection.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([]));
    let result = begun.map_err(SqliteError::from).and_then(|_| {
        // A panic in one query must not leave its transaction open for the next.
        catch_unwind(AssertUnwindSafe(|| query(connection)))
            .unwrap_or_else(|_| Err(StoreError::Broken("a query panicked".into()).into()))
    });
    connection.progress_handler(0, None::<fn() -> bool>)?;
    if !connection.is_autocommit() {
        connection.prepare_cached("ROLLBACK")?.execute([])?;
    }
    result
}
