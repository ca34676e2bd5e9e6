//! Writes on the caller's thread, and checkpoints that are left to the writer's thread.

use super::{TempDir, table};
use crate::sqlite::{Database, NoFaults};
use rusqlite::Connection;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_engine::stores::Durability::{Synced, Written};
use toolyard_engine::stores::StoreError;

#[tokio::test]
async fn a_small_write_runs_on_the_callers_thread_unless_another_process_holds_the_lock() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    table(&database).await;
    let thread = |_: &Connection| Ok(std::thread::current().id());
    let here = std::thread::current().id();
    assert_eq!(database.write_small(Written, thread).await, Ok(here));
    assert_ne!(database.write_checked(Written, thread).await, Ok(here));
    let other = Connection::open(folder.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let since = Instant::now();
    let (written, ()) = tokio::join!(database.write_small(Written, thread), async {
        assert!(since.elapsed() < Duration::from_secs(1), "the caller's thread does not wait for the lock");
        other.execute_batch("COMMIT").unwrap();
    });
    assert_ne!(written.unwrap(), here);
    assert_eq!(database.write_small(Written, thread).await, Ok(here), "free again");
    database.close().await;
    assert_eq!(database.write_small(Written, thread).await, Err(StoreError::Stopped));
}

#[tokio::test]
async fn a_synced_write_runs_on_the_callers_thread_once_a_sync_was_fast() {
    // In memory a sync is fast, unless the machine is busy just then.
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    table(&database).await;
    let insert = |connection: &Connection| {
        connection.execute("INSERT INTO t VALUES (NULL)", [])?;
        Ok(std::thread::current().id())
    };
    let here = std::thread::current().id();
    assert_ne!(database.write_small(Synced, insert).await, Ok(here), "nothing is known about the disk yet");
    let mut ran_here = false;
    for _ in 0..1000 {
        ran_here |= database.write_small(Synced, insert).await == Ok(here);
    }
    assert!(ran_here);
    database.close().await;
}

#[tokio::test]
async fn the_wal_is_checkpointed_by_the_writer_thread() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    database
        .write(Written, |connection| Ok(connection.execute_batch("CREATE TABLE b (data BLOB)")?))
        .await
        .unwrap();
    let page = || folder.file().metadata().unwrap().len();
    let before = page();
    let insert =
        |connection: &Connection| Ok(connection.execute("INSERT INTO b VALUES (zeroblob(4000000))", [])?);
    for _ in 0..5 {
        database.write_small(Written, insert).await.unwrap();
    }
    let since = Instant::now();
    while page() < before + 16_000_000 {
        assert!(since.elapsed() < Duration::from_secs(30), "{} after {before}", page());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    database.close().await;
}
