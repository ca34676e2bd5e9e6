//! A disk that is really full, and the size of the WAL.

use super::{TempDir, example};
use crate::require::require;
use crate::sqlite::{Database, Events, Jobs, NoFaults, RING};
use crate::suite::cases::{at, id};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use toolyard_engine::stores::{
    Created, Durability, EventQuery, EventStore, JobStore, NewEvent, NewJob, StoreError,
};
use toolyard_protocol::Payload;

/// Mounts a small file system over the folder, for this thread and those it starts. False if not permitted.
fn mount_small_disk(folder: &Path) -> bool {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    // SAFETY: the thread keeps its file descriptors; only its mount namespace changes.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
        .and_then(|()| mount_change("/", private))
        .and_then(|()| mount("tmpfs", folder, "tmpfs", MountFlags::empty(), c"size=1m"))
        .is_ok()
}

fn fill(file: &Path) {
    let mut ballast = std::fs::File::create(file).unwrap();
    while ballast.write_all(&[1; 4096]).is_ok() {}
}

#[test]
fn a_full_disk_refuses_whole_changes_and_free_space_brings_the_store_back() {
    let folder = TempDir::fresh();
    if !require(mount_small_disk(&folder.0), "mounts are refused, so there is no disk to fill") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
        let events = Events::new(database.clone(), RING);
        let jobs = Jobs::new(database.clone(), &events);
        let (mut next, mut stored) = (0, Vec::new());
        for round in 1..=3 {
            let ballast = folder.0.join("ballast");
            fill(&ballast);
            let mut refused = 0;
            while refused < 5 {
                next += 1;
                let arguments = Payload::json(format!("\"{}\"", "x".repeat(3000)));
                match jobs
                    .create(NewJob {
                        arguments,
                        max_open: 10_000,
                        max_open_of_caller: 10_000,
                        ..example(next)
                    })
                    .await
                {
                    Ok(Created::New(lease)) => stored.push(lease.id),
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => {
                        assert_eq!(error, StoreError::Full, "round {round}");
                        refused += 1;
                    }
                }
                assert!(next < 1000, "the disk never fills");
            }
            std::fs::remove_file(&ballast).unwrap();
            next += 1;
            assert!(matches!(jobs.create(example(next)).await, Ok(Created::New(_))), "round {round}");
            stored.push(id(next));
        }
        database.close().await;
        let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
        let events = Events::new(database.clone(), RING);
        let jobs = Jobs::new(database.clone(), &events);
        for n in 1..=next {
            let there = jobs.get(id(n)).await.unwrap().is_some();
            assert_eq!(there, stored.contains(&id(n)), "job {n}");
        }
        let all = EventQuery { after: Some(0), limit: 10_000, ..EventQuery::default() };
        assert_eq!(events.read(all).await.unwrap().events.len(), stored.len());
        database.close().await;
    });
}

#[tokio::test]
async fn the_wal_stays_small() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    let create = |connection: &rusqlite::Connection| {
        Ok(connection.execute_batch("CREATE TABLE big (n INTEGER PRIMARY KEY, bytes BLOB) STRICT")?)
    };
    database.write(Durability::Written, create).await.unwrap();
    for _ in 0..300 {
        let replace = |connection: &rusqlite::Connection| {
            connection.execute("INSERT OR REPLACE INTO big VALUES (1, randomblob(262144))", [])?;
            Ok(())
        };
        database.write(Durability::Written, replace).await.unwrap();
        database.read(|connection| Ok(connection.execute_batch("SELECT count(*) FROM big")?)).await.unwrap();
    }
    let mut wal = folder.file().into_os_string();
    wal.push("-wal");
    let length = std::fs::metadata(wal).unwrap().len();
    assert!(length < 20 << 20, "75 MiB were written, and the WAL has {length} bytes");
    database.close().await;
}

#[tokio::test]
async fn the_ring_of_events_is_bounded_in_bytes() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    let events = Events::new(database.clone(), RING);
    let data = Payload::json(format!("\"{}\"", "x".repeat(1 << 20)));
    for _ in 0..90 {
        let event = NewEvent { at: at(1), kind: "log".into(), subject: None, data: data.clone() };
        events.append(vec![event]).await.unwrap();
    }
    let stored = database
        .read(|connection| {
            Ok(connection.query_row("SELECT sum(length(data)) FROM event", [], |row| row.get::<_, i64>(0))?)
        })
        .await
        .unwrap();
    assert!((60 << 20..70 << 20).contains(&stored), "{stored} bytes");
    database.close().await;
}
