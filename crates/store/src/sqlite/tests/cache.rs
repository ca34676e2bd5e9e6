//! The cache on its file: what survives, what is dropped, how large it becomes.

use super::TempDir;
use crate::audit::tests::{FakeClock, spec};
use crate::sqlite;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use toolyard_engine::cache::{Cache, Key, Options};
use toolyard_protocol::{Identity, Outcome, Payload};

fn key(n: u64) -> Key {
    Key::new(&spec(), None, &Identity::local(), &n.to_le_bytes())
}

fn result(text: &str) -> Outcome {
    Outcome::success(Some(Payload::json(text.to_owned())))
}

fn open(folder: &TempDir, options: Options) -> (Arc<Cache>, Arc<FakeClock>) {
    let clock = FakeClock::at(1_000_000);
    (Cache::new(Box::new(sqlite::CacheTable::open(&folder.file())), options, clock.clone()), clock)
}

#[test]
fn results_survive_reopening_and_end_with_their_time() {
    let folder = TempDir::fresh();
    let options = Options { ttl: Duration::from_secs(10), ..Options::default() };
    let (cache, _) = open(&folder, options);
    cache.put(&key(1), &result("{\"a\":1}"));
    drop(cache);
    let (cache, clock) = open(&folder, options);
    assert_eq!(cache.get(&key(1)), Some(result("{\"a\":1}")));
    assert_eq!(cache.get(&key(2)), None);
    clock.0.fetch_add(10_001, Ordering::Relaxed);
    assert_eq!(cache.get(&key(1)), None);
}

#[test]
fn other_options_hold_for_results_stored_earlier() {
    let folder = TempDir::fresh();
    let (cache, clock) = open(&folder, Options::default());
    for n in 0..50 {
        cache.put(&key(n), &result(&format!("{:?}", "x".repeat(500))));
    }
    let rows = || {
        let file = rusqlite::Connection::open(folder.file()).unwrap();
        file.query_row("SELECT COUNT(*) FROM cache", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(rows(), 50);
    cache.set_options(Options { max_bytes: 8192, ..Options::default() });
    cache.put(&key(50), &result("1"));
    assert!((1..=16).contains(&rows()), "{} rows", rows());
    clock.0.fetch_add(2000, Ordering::Relaxed);
    assert!(cache.get(&key(50)).is_some());
    cache.set_options(Options { ttl: Duration::from_secs(1), ..Options::default() });
    assert_eq!(cache.get(&key(50)), None);
}

#[test]
fn a_changed_byte_in_a_row_drops_the_row() {
    let folder = TempDir::fresh();
    let (cache, _) = open(&folder, Options::default());
    cache.put(&key(1), &result("\"good\""));
    cache.put(&key(2), &result("\"other\""));
    drop(cache);
    let file = rusqlite::Connection::open(folder.file()).unwrap();
    let rot = "UPDATE cache SET data = CAST(x'00' || '\"evil\"' AS BLOB) WHERE data = CAST(x'00' || '\"good\"' AS BLOB)";
    assert_eq!(file.execute(rot, []).unwrap(), 1);
    drop(file);
    let (cache, _) = open(&folder, Options::default());
    assert_eq!(cache.get(&key(1)), None);
    assert_eq!(cache.get(&key(2)), Some(result("\"other\"")));
    let file = rusqlite::Connection::open(folder.file()).unwrap();
    let rows: i64 = file.query_row("SELECT COUNT(*) FROM cache", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "the damaged row is deleted");
}

#[test]
fn a_file_that_is_no_database_is_recreated() {
    let folder = TempDir::fresh();
    std::fs::write(folder.file(), vec![0x5a; 10_000]).unwrap();
    let (cache, _) = open(&folder, Options::default());
    cache.put(&key(1), &result("1"));
    drop(cache);
    let (cache, _) = open(&folder, Options::default());
    assert_eq!(cache.get(&key(1)), Some(result("1")));
}

#[test]
fn the_bound_in_bytes_holds() {
    let folder = TempDir::fresh();
    let options = Options { max_bytes: 100_000, ..Options::default() };
    let (cache, clock) = open(&folder, options);
    let text = format!("\"{}\"", "x".repeat(1000));
    for n in 0..500 {
        clock.0.fetch_add(1, Ordering::Relaxed);
        cache.put(&key(n), &result(&text));
    }
    let file = rusqlite::Connection::open(folder.file()).unwrap();
    let bytes: i64 = file.query_row("SELECT SUM(size) FROM cache", [], |row| row.get(0)).unwrap();
    assert!(bytes <= 100_000, "{bytes}");
    assert!(cache.get(&key(499)).is_some(), "the newest stays");
    cache.put(&key(1000), &result(&format!("\"{}\"", "y".repeat(90_000))));
    drop(cache);
    let (cache, _) = open(&folder, options);
    assert_eq!(cache.get(&key(1000)), None, "one result may not evict all the others");
}
