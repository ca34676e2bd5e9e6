//! Threads that read, each with a connection of its own that cannot write.

use super::database;
use super::error::SqliteError;
use rusqlite::{Connection, config::DbConfig};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use toolyard_engine::stores::StoreError;

/// Steps of SQLite's machine between two looks at the clock: some 10 µs.
const STEPS_PER_CHECK: i32 = 1000;

pub struct Reader {
    pub path: PathBuf,
    pub queue: Arc<Mutex<mpsc::Receiver<ReadRequest>>>,
}

pub enum ReadRequest {
    Query(Box<dyn Query>),
    Close,
}

/// A query with its caller's ear, its result type erased.
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
        // Whoever went away needs no answer.
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
    pub fn run(self) {
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

    /// Opened when first needed: many processes only ever write, or never come here at all.
    fn connect<'a>(&self, slot: &'a mut Option<Connection>) -> Result<&'a mut Connection, SqliteError> {
        let connection = match slot.take() {
            Some(connection) => connection,
            None => {
                let connection = database::connect(&self.path)?;
                connection.pragma_update(None, "query_only", true)?;
                // The log is the writer's business.
                connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
                connection
            }
        };
        Ok(slot.insert(connection))
    }
}

/// One moment of the database for the whole query, however many statements it takes.
fn run_query<T>(
    connection: &mut Connection,
    budget: Duration,
    query: impl FnOnce(&Connection) -> Result<T, SqliteError>,
) -> Result<T, SqliteError> {
    let deadline = Instant::now() + budget;
    connection.progress_handler(STEPS_PER_CHECK, Some(move || Instant::now() >= deadline))?;
    let begun = connection.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([]));
    let result = begun.map_err(SqliteError::from).and_then(|_| {
        // A fault in one query must not leave its transaction to the next.
        catch_unwind(AssertUnwindSafe(|| query(connection)))
            .unwrap_or_else(|_| Err(StoreError::Broken("a query of it panicked".into()).into()))
    });
    connection.progress_handler(0, None::<fn() -> bool>)?;
    if !connection.is_autocommit() {
        connection.prepare_cached("ROLLBACK")?.execute([])?;
    }
    result
}
