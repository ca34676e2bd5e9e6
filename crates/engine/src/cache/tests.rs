//! What the cache promises: one run for equal calls, nothing kept that must not be, bounds held.

use super::*;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use toolyard_protocol::{Payload, Timestamp};

struct Hands(AtomicU64);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::Relaxed))
    }
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("toolyard-cache-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn key(n: u64) -> Key {
    Key(*blake3::hash(&n.to_le_bytes()).as_bytes())
}

fn result(text: &str) -> Outcome {
    Outcome::success(Some(Payload::json(text.to_owned())))
}

fn open(folder: &Folder, options: Options) -> (Arc<Cache>, Arc<Hands>) {
    let clock = Arc::new(Hands(AtomicU64::new(1_000_000)));
    (Cache::open(&folder.0, options, clock.clone()), clock)
}

#[test]
fn results_survive_reopening_and_end_with_their_time() {
    let folder = Folder::new("ttl");
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
fn a_clock_that_jumped_back_makes_nothing_immortal() {
    let folder = Folder::new("clock");
    let (cache, clock) = open(&folder, Options::default());
    cache.put(&key(1), &result("1"));
    clock.0.store(5, Ordering::Relaxed);
    assert_eq!(cache.get(&key(1)), None);
}

#[test]
fn a_changed_byte_in_a_row_drops_the_row() {
    let folder = Folder::new("rot");
    let (cache, _) = open(&folder, Options::default());
    cache.put(&key(1), &result("\"good\""));
    cache.put(&key(2), &result("\"other\""));
    drop(cache);
    let file = rusqlite::Connection::open(folder.0.join("cache.sqlite")).unwrap();
    file.execute("UPDATE cache SET data = CAST(x'00' || '\"evil\"' AS BLOB) WHERE key = ?1", [key(1).0])
        .unwrap();
    drop(file);
    let (cache, _) = open(&folder, Options::default());
    assert_eq!(cache.get(&key(1)), None);
    assert_eq!(cache.get(&key(2)), Some(result("\"other\"")));
    let file = rusqlite::Connection::open(folder.0.join("cache.sqlite")).unwrap();
    let rows: i64 = file.query_row("SELECT COUNT(*) FROM cache", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "the broken row is gone");
}

#[test]
fn a_file_that_is_no_database_is_made_anew() {
    let folder = Folder::new("garbage");
    std::fs::write(folder.0.join("cache.sqlite"), vec![0x5a; 10_000]).unwrap();
    let (cache, _) = open(&folder, Options::default());
    cache.put(&key(1), &result("1"));
    drop(cache);
    let (cache, _) = open(&folder, Options::default());
    assert_eq!(cache.get(&key(1)), Some(result("1")));
}

#[test]
fn the_bound_in_bytes_holds() {
    let folder = Folder::new("bound");
    let options = Options { max_bytes: 100_000, ..Options::default() };
    let (cache, clock) = open(&folder, options);
    let text = format!("\"{}\"", "x".repeat(1000));
    for n in 0..500 {
        clock.0.fetch_add(1, Ordering::Relaxed);
        cache.put(&key(n), &result(&text));
    }
    let file = rusqlite::Connection::open(folder.0.join("cache.sqlite")).unwrap();
    let bytes: i64 = file.query_row("SELECT SUM(size) FROM cache", [], |row| row.get(0)).unwrap();
    assert!(bytes <= 100_000, "{bytes}");
    assert!(cache.get(&key(499)).is_some(), "the newest stays");
    cache.put(&key(1000), &result(&format!("\"{}\"", "y".repeat(90_000))));
    drop(cache);
    let (cache, _) = open(&folder, options);
    assert_eq!(cache.get(&key(1000)), None, "one result may not push out all the others");
}

#[tokio::test]
async fn equal_runs_are_shared_and_live_as_long_as_someone_waits() {
    let folder = Folder::new("flight");
    let (cache, _) = open(&folder, Options::default());
    let (started, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let flight = || {
        let (started, finished) = (started.clone(), finished.clone());
        cache.flight(key(1), 0, move || {
            async move {
                started.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(50)).await;
                finished.fetch_add(1, Ordering::SeqCst);
                Ok(result("1"))
            }
            .boxed()
        })
    };
    let first = tokio::spawn(flight());
    let second = tokio::spawn(flight());
    tokio::time::sleep(Duration::from_millis(10)).await;
    first.abort();
    assert_eq!(second.await.unwrap().unwrap(), result("1"));
    assert_eq!((started.load(Ordering::SeqCst), finished.load(Ordering::SeqCst)), (1, 1));
    // The last waiter takes the run with it.
    let alone = tokio::spawn(flight());
    tokio::time::sleep(Duration::from_millis(10)).await;
    alone.abort();
    tokio::time::sleep(Duration::from_millis(80)).await;
    assert_eq!((started.load(Ordering::SeqCst), finished.load(Ordering::SeqCst)), (2, 1));
}
