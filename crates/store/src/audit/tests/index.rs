//! The index matches the segments, however it was built.

use super::*;

fn all(state: &Path) -> Vec<CallRow> {
    let filter = Filter { limit: Some(u32::MAX), ..Default::default() };
    Index::open(state, Arc::new(TestJsonView)).unwrap().query(&filter).unwrap()
}

fn rebuilt(state: &Path) -> Vec<CallRow> {
    for file in files(state, "", "").iter().filter(|p| p.to_str().unwrap().contains("audit-index")) {
        std::fs::remove_file(file).unwrap();
    }
    all(state)
}

fn make_calls(log: &Arc<FileAuditLog>, count: usize) {
    for n in 0..count {
        let begun = log.begin(&call("{\"nested\":{\"call\":\"x\"}}"), &spec()).unwrap();
        match n % 3 {
            0 => drop(begun.end(&success(12)).unwrap()),
            1 => drop(begun.end(&Outcome::failure(Error::new(ErrorKind::Timeout, "too \"slow\""))).unwrap()),
            _ => drop(begun),
        }
        log.refused(&call("{}"), &Error::new(ErrorKind::UnknownTool, "no such tool")).unwrap();
    }
}

#[test]
fn catching_up_gives_the_same_rows_as_rebuilding() {
    let dir = TempDir::new();
    let log = open(dir.path(), Options { segment_bytes: 3000, ..Default::default() });
    let running = log.begin(&call("{}"), &spec()).unwrap();
    for round in 1..6 {
        make_calls(&log, 7);
        let rows = all(dir.path());
        assert_eq!(rows.len(), 1 + round * 14);
        assert_eq!(rows.iter().filter(|row| row.status == "open").count(), 1);
        if round % 2 == 0 {
            assert_eq!(rows, rebuilt(dir.path()));
        }
    }
    running.end(&success(99)).unwrap();
    let rows = all(dir.path());
    assert!(rows.iter().any(|row| row.duration_us == Some(99) && row.output_bytes == Some(11)));
    assert_eq!(rows, rebuilt(dir.path()));
}

#[test]
fn rows_are_found_by_each_filter() {
    let dir = TempDir::new();
    let clock = FakeClock::at(1_000);
    let log = FileAuditLog::open(
        dir.path(),
        Options::default(),
        clock.clone(),
        Arc::new(SystemRandom),
        Arc::new(TestJsonView),
    )
    .unwrap();
    make_calls(&log, 3);
    clock.0.store(5_000, Ordering::SeqCst);
    let mut last = call("{}");
    last.tool = "no.such".into();
    log.refused(&last, &Error::new(ErrorKind::UnknownTool, "no such tool")).unwrap();
    let index = Index::open(dir.path(), Arc::new(TestJsonView)).unwrap();
    let count = |filter: Filter| index.query(&filter).unwrap().len();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(count(Filter::default()), 7);
    assert_eq!(count(Filter { limit: Some(2), ..Default::default() }), 2);
    assert_eq!(count(Filter { tool: some("no.such"), ..Default::default() }), 1);
    assert_eq!(count(Filter { caller: some("local"), ..Default::default() }), 7);
    assert_eq!(count(Filter { caller: some("eve"), ..Default::default() }), 0);
    assert_eq!(count(Filter { status: some("refused"), ..Default::default() }), 4);
    assert_eq!(count(Filter { status: some("failure"), ..Default::default() }), 2);
    assert_eq!(count(Filter { since: Some(Timestamp::from_unix_ms(5_000)), ..Default::default() }), 1);
    let row = &index.query(&Filter { call: Some(last.id), ..Default::default() }).unwrap()[0];
    assert_eq!((row.tool.as_str(), row.error.as_deref()), ("no.such", Some("unknown_tool")));
    let failed = index.query(&Filter { status: some("failure"), ..Default::default() }).unwrap();
    let kinds: Vec<_> = failed.iter().filter_map(|row| row.error.as_deref()).collect();
    assert!(kinds.contains(&"cancelled") && kinds.contains(&"timeout"), "{kinds:?}");
    assert!(failed.iter().any(|row| row.message.as_deref() == Some("too \"slow\"")));
}

#[test]
fn a_damaged_index_is_rebuilt() {
    let dir = TempDir::new();
    let log = open(dir.path(), Options::default());
    make_calls(&log, 5);
    let rows = all(dir.path());
    let path = dir.path().join("audit-index.sqlite");
    for damage in [&b"this is no database, whatever its name says"[..], b""] {
        let _ = std::fs::remove_file(dir.path().join("audit-index.sqlite-wal"));
        std::fs::write(&path, damage).unwrap();
        assert_eq!(all(dir.path()), rows);
    }
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute_batch("DROP TABLE call").unwrap();
    drop(database);
    assert_eq!(all(dir.path()), rows);
}

#[test]
fn rows_of_a_truncated_write_are_removed() {
    let dir = TempDir::new();
    let log = open(dir.path(), Options::default());
    make_calls(&log, 2);
    drop(log);
    let segment = &segments(dir.path())[0];
    let whole = std::fs::read(segment).unwrap();
    assert_eq!(all(dir.path()).len(), 4);
    let two_lines = whole.split_inclusive(|b| *b == b'\n').take(2).map(<[u8]>::len).sum::<usize>();
    std::fs::write(segment, &whole[..two_lines]).unwrap();
    assert_eq!(all(dir.path()).len(), 1);
}

#[test]
fn a_damaged_record_is_left_out_and_counted_and_the_rest_is_listed() {
    let dir = TempDir::new();
    let log = open(dir.path(), Options::default());
    make_calls(&log, 4);
    drop(log);
    let segment = &segments(dir.path())[0];
    let text = std::fs::read_to_string(segment).unwrap();
    let text = text.replacen("\"tool\":\"example.echo\"", "\"tool\":\"example.echo", 1);
    std::fs::write(segment, text.replacen("\"hash\":\"", "\"hush\":\"", 1)).unwrap();
    let index = Index::open(dir.path(), Arc::new(TestJsonView)).unwrap();
    assert_eq!(index.skipped().unwrap(), 2);
    assert_eq!(index.query(&Filter::default()).unwrap().len(), 7);
    drop(index);
    assert_eq!(Index::open(dir.path(), Arc::new(TestJsonView)).unwrap().skipped().unwrap(), 2);
}
