//! Random histories of artifacts, annotations, graph, archive and limits, with crashes and failures at every
//! point, compared with the in-memory stores.

mod steps;

use super::rng::Rng;
use super::stores::Stores;
use super::{Subject, on_every_subject};
use crate::bucket::StoredBucket;
use crate::sqlite::tests::TempDir;
use crate::sqlite::{Database, Fault, Faults, NoFaults, POINTS};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use steps::{Answer, Change, Query};
use toolyard_engine::stores::StoreError;

/// Per part; there are eight, which run in parallel.
const HISTORIES: u64 = 400;

const ROUNDS: u64 = 8;

macro_rules! parts {
    ($($part:ident = $number:literal)*) => {
        $(#[tokio::test]
        async fn $part() {
            run($number).await;
        })*
    };
}

parts! { part_0 = 0 part_1 = 1 part_2 = 2 part_3 = 3 part_4 = 4 part_5 = 5 part_6 = 6 part_7 = 7 }

on_every_subject!(stored_data_outlives_the_process);

async fn stored_data_outlives_the_process<S: Subject>() {
    let mut rng = Rng::new(77);
    let subject = S::fresh(1);
    for _ in 0..200 {
        let _ = Change::random(&mut rng).apply(subject.others()).await;
    }
    let before = everything(subject.others()).await;
    assert_eq!(everything(subject.reopen().await.others()).await, before);
}

/// Created once and copied, so that a history does not have to create the tables.
async fn empty_file() -> Vec<u8> {
    let folder = TempDir::fresh();
    Database::open(&folder.file(), Arc::new(NoFaults)).unwrap().close().await;
    std::fs::read(folder.file()).unwrap()
}

async fn run(part: u64) {
    let empty = empty_file().await;
    let folder = TempDir::fresh();
    let file = folder.file();
    let (mut crashes, mut failures, mut changes) = (BTreeMap::new(), 0, 0);
    for seed in 0..HISTORIES {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(folder.0.join(format!("yard.sqlite{suffix}")));
        }
        std::fs::write(&file, &empty).unwrap();
        let mut history = History::new(part * HISTORIES + seed, &file);
        history.run().await;
        failures += history.failures;
        changes += history.changes;
        for point in history.crashes {
            *crashes.entry(point).or_insert(0) += 1;
        }
    }
    println!("{HISTORIES} histories, {changes} changes, {failures} full disks, crashes {crashes:?}");
    // Guards against a run in which nothing crashed.
    for point in POINTS {
        assert!(crashes.get(point).is_some_and(|count| *count > 5), "{point}: {crashes:?}");
    }
    assert!(failures > 50, "{failures} failures");
}

struct History<'a> {
    seed: u64,
    rng: Rng,
    path: &'a Path,
    model: Stores,
    injector: Arc<FaultInjector>,
    database: Arc<Database>,
    stores: Stores,
    crashes: Vec<&'static str>,
    failures: usize,
    changes: usize,
}

impl<'a> History<'a> {
    fn new(seed: u64, path: &'a Path) -> History<'a> {
        let mut rng = Rng::new(seed);
        let (database, injector) = open(path, &mut rng);
        let stores = Stores::in_sqlite(database.clone());
        let model = Stores::in_memory();
        History {
            seed,
            rng,
            path,
            model,
            injector,
            database,
            stores,
            crashes: Vec::new(),
            failures: 0,
            changes: 0,
        }
    }

    async fn run(&mut self) {
        for _ in 0..ROUNDS {
            if self.rng.one_in(3) {
                self.query().await;
            } else {
                self.change().await;
            }
        }
        assert_eq!(everything(&self.stores).await, everything(&self.model).await, "seed {}", self.seed);
        self.database.close().await;
    }

    async fn query(&mut self) {
        let query = Query::random(&mut self.rng);
        let expected = query.clone().run(&self.model).await;
        let answer = query.clone().run(&self.stores).await;
        assert_eq!(answer, expected, "seed {}: {query:?}", self.seed);
    }

    /// Submits several changes at once; they are applied in the order of submission.
    async fn change(&mut self) {
        let changes: Vec<Change> = (0..=self.rng.below(4)).map(|_| Change::random(&mut self.rng)).collect();
        let answers = join_all(changes.iter().map(|change| change.clone().apply(&self.stores))).await;
        self.changes += changes.len();
        let mut unknown = Vec::new();
        for (change, answer) in changes.into_iter().zip(answers) {
            match answer {
                Err(StoreError::Stopped) => unknown.push(change),
                // The injected failure: nothing of the change may stay.
                Err(StoreError::Full) => self.failures += 1,
                answer => {
                    assert!(unknown.is_empty(), "seed {}: answered after a crash", self.seed);
                    let expected = change.clone().apply(&self.model).await;
                    assert_eq!(answer, expected, "seed {}: {change:?}", self.seed);
                }
            }
        }
        if let Some(point) = self.injector.crashed() {
            self.crashes.push(point);
            self.reopen().await;
            self.settle(unknown).await;
        } else {
            assert!(unknown.is_empty(), "seed {}: stopped without a crash", self.seed);
        }
    }

    async fn reopen(&mut self) {
        self.database.close().await;
        (self.database, self.injector) = open(self.path, &mut self.rng);
        self.stores = Stores::in_sqlite(self.database.clone());
    }

    /// Of the unanswered changes, the first few were applied completely, or none.
    async fn settle(&mut self, unknown: Vec<Change>) {
        let found = everything(&self.stores).await;
        for change in &unknown {
            if found == everything(&self.model).await {
                return;
            }
            let _ = change.clone().apply(&self.model).await;
        }
        assert_eq!(found, everything(&self.model).await, "seed {}: {unknown:?}", self.seed);
    }
}

type Everything = (Vec<Result<Answer, StoreError>>, Vec<(String, StoredBucket)>);

async fn everything(stores: &Stores) -> Everything {
    let answers = join_all(Query::everything().into_iter().map(|query| query.run(stores))).await;
    (answers, stores.buckets().await)
}

fn open(path: &Path, rng: &mut Rng) -> (Arc<Database>, Arc<FaultInjector>) {
    // Often soon, sometimes never.
    let injector =
        FaultInjector { crash_after: rng.below(40), fail_after: rng.below(40), ..FaultInjector::default() };
    let injector = Arc::new(injector);
    (Database::open(path, injector.clone()).unwrap(), injector)
}

/// Crashes at one point and fails at another, counted since the file was opened.
#[derive(Default)]
struct FaultInjector {
    passed: AtomicU64,
    crash_after: u64,
    fail_after: u64,
    /// A failure was injected in the current group.
    failed: AtomicBool,
    crashed: Mutex<Option<&'static str>>,
}

impl FaultInjector {
    fn crashed(&self) -> Option<&'static str> {
        *self.crashed.lock().unwrap()
    }
}

impl Faults for FaultInjector {
    fn at(&self, point: &'static str) -> Fault {
        let passed = self.passed.fetch_add(1, Ordering::Relaxed);
        // Only there can a failure be reported to the callers.
        let can_fail = matches!(point, "before begin" | "after change" | "before commit");
        if passed == self.fail_after && can_fail {
            self.failed.store(true, Ordering::Relaxed);
            return Fault::Fail;
        }
        if point == "woken" {
            self.failed.store(false, Ordering::Relaxed);
        }
        // Not in the group that failed: the callers could not tell which of its changes did.
        if passed >= self.crash_after && !self.failed.load(Ordering::Relaxed) {
            *self.crashed.lock().unwrap() = Some(point);
            return Fault::Crash;
        }
        Fault::None
    }
}
