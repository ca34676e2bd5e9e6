//! Retention removes whole segments, and the chain records it.

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn later(days: u32) -> Arc<FakeClock> {
    FakeClock::at(SystemClock.now().unix_ms() + (DAY * days).as_millis() as u64)
}

fn open_later(state: &Path, days: u32) -> Arc<FileAuditLog> {
    let options = Options { retention: Some(DAY), ..Default::default() };
    FileAuditLog::open(state, options, later(days), Arc::new(SystemRandom), Arc::new(TestJsonView)).unwrap()
}

fn some_runs(state: &Path) {
    for _ in 0..4 {
        let log = open(state, Options { segment_bytes: 1000, ..Default::default() });
        for _ in 0..4 {
            log.begin(&call("{}"), &spec()).unwrap().end(&success(1)).unwrap();
        }
    }
}

#[test]
fn old_segments_go_and_verify_accepts_it() {
    let dir = TempDir::new();
    some_runs(dir.path());
    let live = open(dir.path(), Options::default());
    let begun = live.begin(&call("{}"), &spec()).unwrap();
    let old = segments(dir.path());
    assert!(old.len() > 8);

    let log = open_later(dir.path(), 2);
    let left = segments(dir.path());
    assert_eq!(left.len(), 2, "the live one and the one with the prune records");
    assert!(old.contains(&left[0]));
    assert_eq!(files(dir.path(), "audit-heads", ".head").len(), 2);
    assert_sound(dir.path());
    let named: u64 = records(dir.path())
        .iter()
        .filter(|record| record["kind"] == "prune")
        .map(|record| record["count"].as_u64().unwrap())
        .sum();
    assert_eq!(named as usize, old.len() - 1);
    drop((begun, live, log));
    assert_sound(dir.path());

    // Once more: the segment with the names is removed too, while others still refer to what it named.
    let third = open_later(dir.path(), 4);
    drop(third.begin(&call("{}"), &spec()).unwrap());
    drop(third);
    assert_sound(dir.path());
    assert_eq!(segments(dir.path()).len(), 1);
}

#[test]
fn names_are_carried_on_while_a_living_segment_refers_to_them() {
    let dir = TempDir::new();
    some_runs(dir.path());
    let live = open(dir.path(), Options::default());
    let begun = live.begin(&call("{}"), &spec()).unwrap();
    drop(open_later(dir.path(), 2));
    drop(open_later(dir.path(), 4));
    assert_eq!(segments(dir.path()).len(), 2);
    assert_sound(dir.path());
    drop((begun, live));
    assert_sound(dir.path());
}

#[test]
fn young_segments_stay_and_no_record_is_written() {
    let dir = TempDir::new();
    some_runs(dir.path());
    let before = segments(dir.path());
    drop(open_later(dir.path(), 0));
    assert_eq!(segments(dir.path()), before);
}

#[test]
fn the_index_forgets_what_was_pruned() {
    let dir = TempDir::new();
    some_runs(dir.path());
    let mut index = Index::open(dir.path(), Arc::new(TestJsonView)).unwrap();
    assert_eq!(index.query(&Filter::default()).unwrap().len(), 16);
    let log = open_later(dir.path(), 2);
    drop(log.begin(&call("{}"), &spec()).unwrap());
    index.catch_up().unwrap();
    assert_eq!(index.query(&Filter::default()).unwrap().len(), 1);
}

#[test]
fn retention_is_applied_while_the_log_is_open() {
    let dir = TempDir::new();
    let keep = Duration::from_millis(800);
    let options = Options { retention: Some(keep), ..Default::default() };
    let log = FileAuditLog::open(
        dir.path(),
        options,
        Arc::new(SystemClock),
        Arc::new(SystemRandom),
        Arc::new(TestJsonView),
    )
    .unwrap();
    let began = std::time::Instant::now();
    let mut calls = 0;
    while began.elapsed() < keep * 3 {
        log.begin(&call("{}"), &spec()).unwrap().end(&success(1)).unwrap();
        calls += 1;
        log.maintain().unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = records(dir.path()).iter().filter(|record| record["kind"] == "begin").count();
    assert!(left < calls * 3 / 4, "{left} of {calls} calls are left after three times the retention");
    assert!(left > 0 && segments(dir.path()).len() > 2);
    assert_sound(dir.path());
    // Without a call the last segment is closed too.
    std::thread::sleep(keep * 2);
    log.maintain().unwrap();
    std::thread::sleep(keep * 2);
    log.maintain().unwrap();
    let left = records(dir.path()).iter().filter(|record| record["kind"] == "begin").count();
    assert_eq!(left, 0);
    drop(log);
    assert_sound(dir.path());
}
