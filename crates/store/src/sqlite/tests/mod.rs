//! The database below the stores: group commit, failures, crashes, migrations, budgets, several processes.

mod cache;
mod disk;
mod small_writes;

use super::error::SqliteError;
use super::faults::{AFTER_CHANGE, AFTER_SYNC, BEFORE_BEGIN, BEFORE_COMMIT, BETWEEN_ANSWERS, WOKEN};
use super::*;
use crate::suite::cases::{at, id};
use futures_util::future::join_all;
use rusqlite::Connection;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use toolyard_engine::stores::Durability::{Synced, Written};
use toolyard_engine::stores::{EventStore, JobEnd, JobStore, Lease, NewEvent, NewJob, StoreError};
use toolyard_protocol::{Identity, JobState, Payload, Progress, Timing};

/// A temporary folder, removed on drop.
pub struct TempDir(pub PathBuf);

impl TempDir {
    pub fn fresh() -> TempDir {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("yard-stores-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("yard.sqlite")
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Injects `fault` at one point after `skip` passes; blocks the writer at `woken` while shut.
struct FaultPlan {
    point: &'static str,
    skip: AtomicUsize,
    fault: Fault,
    seen: Mutex<Vec<&'static str>>,
    shut: Mutex<bool>,
    opened: Condvar,
}

impl FaultPlan {
    fn new(point: &'static str, skip: usize, fault: Fault) -> Arc<FaultPlan> {
        Arc::new(FaultPlan {
            point,
            skip: AtomicUsize::new(skip),
            fault,
            seen: Mutex::default(),
            shut: Mutex::new(false),
            opened: Condvar::new(),
        })
    }

    fn shut(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.opened.notify_all();
    }
}

impl Faults for FaultPlan {
    fn is_held(&self) -> bool {
        *self.shut.lock().unwrap()
    }

    fn at(&self, point: &'static str) -> Fault {
        if point == WOKEN {
            let mut shut = self.shut.lock().unwrap();
            while *shut {
                shut = self.opened.wait(shut).unwrap();
            }
        }
        self.seen.lock().unwrap().push(point);
        if point != self.point {
            return Fault::None;
        }
        match self.skip.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Fault::None,
            Err(_) => self.fault,
        }
    }
}

fn insert(number: i64) -> impl FnOnce(&Connection) -> Result<i64, SqliteError> + Send + 'static {
    move |connection| {
        connection.prepare_cached("INSERT INTO t (n) VALUES (?1)")?.execute([number])?;
        if number < 0 { Err(StoreError::Invalid("negative".into()).into()) } else { Ok(number) }
    }
}

async fn table(database: &Database) {
    database
        .write(
            Written,
            |connection| Ok(connection.execute_batch("CREATE TABLE t (n INTEGER UNIQUE) STRICT")?),
        )
        .await
        .unwrap();
}

async fn numbers(database: &Database) -> Vec<i64> {
    let query = |connection: &Connection| {
        let mut statement = connection.prepare_cached("SELECT n FROM t ORDER BY n")?;
        Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<_>, _>>()?)
    };
    database.read(query).await.unwrap()
}

fn example(n: u64) -> NewJob {
    NewJob {
        id: id(n),
        tool: "a.b".into(),
        arguments: Payload::json("{}"),
        identity: Identity::local(),
        timing: Timing::AsyncLong,
        repeatable: true,
        state: JobState::Pending,
        now: at(1),
        owner: id(0),
        key: None,
        trace: None,
        max_open: 100,
        max_open_of_caller: 100,
        ttl: Duration::ZERO,
    }
}

/// Queues all of them before the writer takes the first, so that they are one group.
async fn together(database: &Database, plan: &FaultPlan, changes: &[i64]) -> Vec<Result<i64, StoreError>> {
    plan.shut(true);
    let all = join_all(changes.iter().map(|&number| database.write(Written, insert(number))));
    let open = async { plan.shut(false) };
    // join! polls in order: everything is queued when the writer is released.
    tokio::join!(all, open).0
}

#[tokio::test]
async fn a_group_is_one_commit_and_a_change_that_fails_takes_back_only_itself() {
    let folder = TempDir::fresh();
    let plan = FaultPlan::new("nowhere", 0, Fault::None);
    let database = Database::open(&folder.file(), plan.clone()).unwrap();
    table(&database).await;
    plan.seen.lock().unwrap().clear();

    let results = together(&database, &plan, &[1, -2, 3, 1, 4]).await;

    assert_eq!(results[0], Ok(1));
    assert_eq!(results[1], Err(StoreError::Invalid("negative".into())));
    assert!(
        matches!(&results[3], Err(StoreError::Broken(why)) if why.contains("UNIQUE")),
        "{:?}",
        results[3]
    );
    assert_eq!(numbers(&database).await, [1, 3, 4]);
    let seen = plan.seen.lock().unwrap().clone();
    assert_eq!(seen.iter().filter(|&&point| point == BEFORE_COMMIT).count(), 1, "{seen:?}");
    assert_eq!(seen.iter().filter(|&&point| point == AFTER_CHANGE).count(), 5, "{seen:?}");
    database.close().await;
}

#[tokio::test]
async fn a_checked_change_fails_alone_before_it_writes_and_with_its_group_after() {
    let folder = TempDir::fresh();
    let plan = FaultPlan::new("nowhere", 0, Fault::None);
    let database = Database::open(&folder.file(), plan.clone()).unwrap();
    table(&database).await;
    let refuse = |_: &Connection| Err::<i64, _>(StoreError::Invalid("no".into()).into());
    for (last, stored) in [(1, vec![1, 2]), (-3, vec![1, 2])] {
        plan.shut(true);
        // A duplicate row fails before anything is written, a negative one afterwards.
        let group = async {
            tokio::join!(
                database.write_checked(Written, refuse),
                database.write_checked(Written, insert(if last == 1 { 1 } else { 4 })),
                database.write_checked(Written, insert(if last == 1 { 2 } else { 5 })),
                database.write_checked(Written, insert(last)),
            )
        };
        let (answers, ()) = tokio::join!(group, async { plan.shut(false) });
        if last == 1 {
            assert_eq!(answers.0, Err(StoreError::Invalid("no".into())));
            assert_eq!((answers.1, answers.2), (Ok(1), Ok(2)));
            assert!(matches!(answers.3, Err(StoreError::Broken(_))), "{:?}", answers.3);
        } else {
            let all = Err(StoreError::Invalid("negative".into()));
            assert_eq!(answers, (all.clone(), all.clone(), all.clone(), all));
        }
        assert_eq!(numbers(&database).await, stored);
    }
    database.close().await;
}

#[tokio::test]
async fn only_a_group_that_asks_for_it_is_synced() {
    let folder = TempDir::fresh();
    let plan = FaultPlan::new("nowhere", 0, Fault::None);
    let database = Database::open(&folder.file(), plan.clone()).unwrap();
    table(&database).await;
    let synced =
        |plan: &FaultPlan| plan.seen.lock().unwrap().iter().filter(|&&point| point == AFTER_SYNC).count();
    let setting = |connection: &Connection| {
        Ok(connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))?)
    };
    assert_eq!(synced(&plan), 0);
    assert_eq!(database.write(Synced, setting).await, Ok(2));
    assert_eq!(synced(&plan), 1);
    assert_eq!(database.write(Written, setting).await, Ok(1));
    assert_eq!(synced(&plan), 1);
    database.close().await;
}

#[tokio::test]
async fn only_changes_that_promise_it_are_synced() {
    let folder = TempDir::fresh();
    let plan = FaultPlan::new("nowhere", 0, Fault::None);
    let database = Database::open(&folder.file(), plan.clone()).unwrap();
    let events = Events::new(database.clone(), RING);
    let jobs = Jobs::new(database.clone(), &events);
    let new = |n, state| NewJob { state, ..example(n) };
    let lease = |n| Lease { id: id(n), owner: id(0), fence: 1 };
    let ending = || JobEnd {
        state: JobState::Complete,
        outcome: None,
        progress: None,
        now: at(3),
        ttl: Duration::ZERO,
    };
    let progress = Progress { done: 1.0, total: None, message: None };
    let event = NewEvent { at: at(1), kind: "log".into(), subject: None, data: Payload::json("{}") };
    let was_synced = |what: &str, wanted: bool| {
        let seen = std::mem::take(&mut *plan.seen.lock().unwrap());
        assert_eq!(seen.contains(&AFTER_SYNC), wanted, "{what}");
    };
    for n in 1..=3 {
        let state = if n == 1 { JobState::Pending } else { JobState::Running };
        jobs.create(new(n, state)).await.unwrap();
        was_synced("create", true);
    }
    jobs.start(lease(1), at(2), Synced).await.unwrap();
    was_synced("start", true);
    jobs.progress(lease(1), progress, at(2)).await.unwrap();
    was_synced("progress", false);
    jobs.set_waiting(lease(1), true, at(2)).await.unwrap();
    was_synced("waiting", false);
    jobs.cancel(id(1), at(2)).await.unwrap();
    was_synced("cancel", true);
    jobs.finish(lease(1), ending(), Written).await.unwrap();
    was_synced("finish for a caller that waits", false);
    jobs.finish(lease(2), ending(), Synced).await.unwrap();
    was_synced("finish", true);
    jobs.take_over(id(0), id(9), at(3), 10).await.unwrap();
    was_synced("take_over", false);
    jobs.expire(at(9), 10).await.unwrap();
    was_synced("expire", false);
    events.append(vec![event]).await.unwrap();
    was_synced("append", false);
    database.close().await;
}

#[tokio::test]
async fn events_of_another_process_end_a_wait() {
    let folder = TempDir::fresh();
    let here = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    let there = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    let (waiting, appending) = (Events::new(here.clone(), RING), Events::new(there.clone(), RING));
    let jobs = Jobs::new(there.clone(), &appending);
    let since = Instant::now();
    let waits = join_all((0..10).map(|_| waiting.wait(0, Duration::from_secs(3600))));
    let (waited, _) = tokio::join!(waits, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        jobs.create(example(1)).await.unwrap()
    });
    assert!(waited.iter().all(Result::is_ok), "{waited:?}");
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
    here.close().await;
    assert_eq!(waiting.wait(1, Duration::from_secs(3600)).await, Err(StoreError::Stopped));
    there.close().await;
}

#[tokio::test]
async fn after_a_crash_at_any_point_the_file_holds_whole_groups_and_all_that_was_answered() {
    for point in POINTS.into_iter().filter(|&point| point != AFTER_SYNC) {
        let folder = TempDir::fresh();
        // The table is the first group, [1, 2, 3] the second.
        let skip = if point == AFTER_CHANGE { 2 } else { usize::from(point != BETWEEN_ANSWERS) };
        let plan = FaultPlan::new(point, skip, Fault::Crash);
        let database = Database::open(&folder.file(), plan.clone()).unwrap();
        table(&database).await;
        let results = together(&database, &plan, &[1, 2, 3]).await;
        assert_eq!(results.last(), Some(&Err(StoreError::Stopped)), "{point}");
        assert_eq!(database.write(Written, insert(9)).await, Err(StoreError::Stopped), "{point}");
        assert_eq!(database.read(|_| Ok(())).await, Err(StoreError::Stopped), "{point}");
        database.close().await;

        let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
        let stored = numbers(&database).await;
        let past = ["after commit", BETWEEN_ANSWERS].contains(&point);
        assert_eq!(stored, if past { vec![1, 2, 3] } else { vec![] }, "{point}");
        let answered = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(answered, usize::from(point == BETWEEN_ANSWERS), "{point}");
        database.close().await;
    }
}

#[tokio::test]
async fn a_step_without_disk_space_fails_its_group_and_the_next_succeeds() {
    for (point, stored) in [(BEFORE_BEGIN, vec![7]), (AFTER_CHANGE, vec![1, 3, 7]), (BEFORE_COMMIT, vec![7])]
    {
        let folder = TempDir::fresh();
        let plan = FaultPlan::new(point, if point == AFTER_CHANGE { 2 } else { 1 }, Fault::Fail);
        let database = Database::open(&folder.file(), plan.clone()).unwrap();
        table(&database).await;
        // The fault repeats from here on, so this is one group with one failing step.
        let results =
            together(&database, &plan, if point == AFTER_CHANGE { &[1, 2] } else { &[1, 2, 3] }).await;
        assert_eq!(results[1], Err(StoreError::Full), "{point}");
        assert_eq!(results[0].is_ok(), point == AFTER_CHANGE, "{point}");
        plan.skip.store(100, Ordering::Relaxed);
        if point == AFTER_CHANGE {
            assert_eq!(database.write(Written, insert(3)).await, Ok(3));
        }
        assert_eq!(database.write(Synced, insert(7)).await, Ok(7), "{point}");
        assert_eq!(numbers(&database).await, stored, "{point}");
        database.close().await;
    }
}

#[tokio::test]
async fn when_sqlite_itself_runs_out_of_space_the_callers_get_an_error_and_the_store_goes_on() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    let prepare = |connection: &Connection| {
        connection.execute_batch("CREATE TABLE big (bytes BLOB) STRICT")?;
        let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
        connection.query_row(&format!("PRAGMA max_page_count = {}", pages + 10), [], |_| Ok(()))?;
        Ok(())
    };
    database.write(Written, prepare).await.unwrap();
    let fill = |size: i64| {
        move |connection: &Connection| {
            connection.execute("INSERT INTO big VALUES (zeroblob(?1))", [size])?;
            Ok(())
        }
    };
    assert_eq!(database.write(Synced, fill(1 << 20)).await, Err(StoreError::Full));
    assert_eq!(database.write(Synced, fill(100)).await, Ok(()));
    let rows = |connection: &Connection| {
        Ok(connection.query_row("SELECT count(*) FROM big", [], |row| row.get::<_, i64>(0))?)
    };
    assert_eq!(database.read(rows).await, Ok(1));
    database.close().await;
}

#[tokio::test]
async fn a_panic_in_a_change_or_a_query_is_an_error_of_that_one_alone() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    table(&database).await;
    let broken = database
        .write(Written, |connection| -> Result<(), SqliteError> {
            connection.execute("INSERT INTO t VALUES (5)", [])?;
            panic!("on purpose")
        })
        .await;
    assert!(matches!(broken, Err(StoreError::Broken(_))), "{broken:?}");
    // More often than there are readers: each must still work afterwards.
    for _ in 0..8 {
        let broken = database.read(|_| -> Result<(), SqliteError> { panic!("on purpose") }).await;
        assert!(matches!(broken, Err(StoreError::Broken(_))), "{broken:?}");
        assert_eq!(numbers(&database).await, Vec::<i64>::new());
    }
    database.close().await;
}

#[tokio::test]
async fn a_query_over_its_budget_is_stopped_and_readers_cannot_write() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    table(&database).await;
    let endless = |connection: &Connection| {
        let sql = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c";
        Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?)
    };
    let since = Instant::now();
    let stopped = database.read_within(Duration::from_millis(30), endless).await;
    assert_eq!(stopped, Err(StoreError::Budget { ms: 30 }));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    let written = database.read(|connection| Ok(connection.execute("INSERT INTO t VALUES (1)", [])?)).await;
    assert!(matches!(&written, Err(StoreError::Broken(why)) if why.contains("readonly")), "{written:?}");
    assert_eq!(numbers(&database).await, Vec::<i64>::new());
    database.close().await;
}

#[tokio::test]
async fn two_openers_of_one_file_write_in_turn_and_see_each_other() {
    let folder = TempDir::fresh();
    let (one, two) =
        tokio::join!(async { Database::open(&folder.file(), Arc::new(NoFaults)).unwrap() }, async {
            Database::open(&folder.file(), Arc::new(NoFaults)).unwrap()
        });
    table(&one).await;
    let odd = join_all((0..50).map(|n| one.write(Written, insert(2 * n + 1))));
    let even = join_all((0..50).map(|n| two.write(Written, insert(2 * n))));
    let (odd, even) = tokio::join!(odd, even);
    assert!(odd.iter().chain(&even).all(Result::is_ok), "{odd:?} {even:?}");
    assert_eq!(numbers(&one).await, (0..100).collect::<Vec<_>>());
    assert_eq!(numbers(&two).await.len(), 100);
    one.close().await;
    two.close().await;
}

#[test]
fn steps_are_taken_once_in_order_all_or_none_and_newer_files_are_refused() {
    let mut connection = Connection::open_in_memory().unwrap();
    let first = "CREATE TABLE one (n INTEGER) STRICT";
    let second = "CREATE TABLE two (n INTEGER) STRICT; INSERT INTO one VALUES (1)";
    migrate::migrate_with(&mut connection, &[first]).unwrap();
    migrate::migrate_with(&mut connection, &[first, second]).unwrap();
    migrate::migrate_with(&mut connection, &[first, second]).unwrap();
    let rows = |connection: &Connection| {
        connection.query_row("SELECT count(*) FROM one", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(rows(&connection), 1);
    let half = ["", "", "INSERT INTO one VALUES (2)", "no sql"];
    assert!(migrate::migrate_with(&mut connection, &half).is_err());
    assert_eq!(rows(&connection), 1, "a failed migration leaves nothing");
    let SqliteError(refused) = migrate::migrate_with(&mut connection, &[first]).unwrap_err();
    assert!(refused.to_string().contains("schema version 2, supported up to 1"), "{refused}");
}

#[tokio::test]
async fn the_file_is_private_and_closing_removes_the_wal() {
    let folder = TempDir::fresh();
    let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
    table(&database).await;
    for entry in std::fs::read_dir(&folder.0).unwrap().map(Result::unwrap) {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
    numbers(&database).await;
    database.close().await;
    let left: Vec<_> =
        std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["yard.sqlite"]);
    assert_eq!(database.write(Written, insert(1)).await, Err(StoreError::Stopped));
    assert_eq!(database.read(|_| Ok(())).await, Err(StoreError::Stopped));
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let folder = TempDir::fresh();
    std::fs::write(folder.file(), "this is no database, only a text of some length ".repeat(100)).unwrap();
    let refused = Database::open(&folder.file(), Arc::new(NoFaults)).err();
    assert!(
        matches!(&refused, Some(StoreError::Broken(why)) if why.contains("not a database")),
        "{refused:?}"
    );
}
