//! The written records, byte for byte, and their limits.

use super::*;
use crate::audit::record;

#[test]
fn a_small_segment_is_exactly_its_golden_file() {
    let dir = TempDir::new();
    let clock = FakeClock::at(1_794_775_458_123);
    let log = at(dir.path(), &clock, Arc::new(TestJsonView));
    let id = |n: u8| Id::from_parts(1_794_775_458_000, [n; 10]);

    let mut first = call_with(id(1), r#"{"password":"hunter2","text":"hi"}"#);
    first.tool = "echo".into();
    first.trace = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    first.idempotency_key = Some("key \"1\"\n".into());
    let begun = log.begin(&first, &spec()).unwrap();
    clock.0.fetch_add(5, Ordering::SeqCst);
    begun.end(&success(4321)).unwrap();

    let failed = log.begin(&call_with(id(2), "{}"), &spec()).unwrap();
    failed.end(&Outcome::failure(Error::new(ErrorKind::ToolFailed, "it \"broke\"\n"))).unwrap();

    let dropped = log.begin(&call_with(id(3), "{}"), &spec()).unwrap();
    clock.0.fetch_add(7, Ordering::SeqCst);
    drop(dropped);

    let mut unknown = call_with(id(4), "not json");
    unknown.tool = "no.such".into();
    log.refused(&unknown, &Error::new(ErrorKind::UnknownTool, "no tool is called no.such")).unwrap();
    log.close();

    let written = std::fs::read_to_string(&segments(dir.path())[0]).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/audit/tests/golden/segment.jsonl");
    if std::env::var_os("TOOLYARD_BLESS").is_some() {
        std::fs::write(&golden, &written).unwrap();
    }
    assert_eq!(written, std::fs::read_to_string(golden).unwrap());
    assert!(!written.contains("hunter2"), "a secret was written");
    assert_eq!(assert_sound(dir.path()).records, written.lines().count() as u64);
}

#[test]
fn no_file_is_created_before_the_first_record() {
    let dir = TempDir::new();
    drop(open(dir.path(), Options::default()));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn files_can_be_read_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new();
    drop(open(dir.path(), Options::default()).begin(&call("{}"), &spec()).unwrap());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in ["audit", "audit-heads"] {
        assert_eq!(mode(&dir.path().join(folder)), 0o700);
        for file in files(dir.path(), folder, "") {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
}

#[test]
fn no_end_line_exceeds_its_reserved_space() {
    for nasty in ["\u{1}", "\"", "é", "\u{10ffff}", "x"] {
        let error = Error::new(ErrorKind::AuditUnavailable, nasty.repeat(100_000));
        let mut outcome = Outcome::new(Status::PartialSuccess, None, Some(error)).unwrap();
        outcome.meta.duration = Duration::MAX;
        let id = Id::from_parts(u64::MAX, [255; 10]);
        let body = record::end(Timestamp::from_unix_ms(0), id, u64::MAX, &outcome);
        let line = body.len() + super::super::record::OVERHEAD;
        assert!(line as u64 <= record::END_MAX, "{line} bytes of {nasty:?}");
        assert!(line > 1024, "cut far too short: {line} bytes of {nasty:?}");
    }
}

#[test]
fn lines_stay_readable_whatever_the_caller_sends() {
    let dir = TempDir::new();
    let log = open(dir.path(), Options::default());
    let mut nasty = call("{\"a\":\"\\n\\\",\\\"hash\\\":\\\"\"}");
    nasty.tool = "\u{0}\",\"hash\":\"\n".repeat(1000);
    nasty.idempotency_key = Some("\u{202e}\"}\n".repeat(1000));
    log.refused(&nasty, &Error::new(ErrorKind::UnknownTool, "\n")).unwrap();
    log.begin(&nasty, &spec()).unwrap().end(&success(1)).unwrap();
    drop(log);
    assert_sound(dir.path());
    let records = records(dir.path());
    assert_eq!(records.len(), 5);
    assert_eq!(records[1]["arguments"]["a"], "\n\",\"hash\":\"");
}

/// A view that breaks its contract must not break the chain.
struct InvalidView;

impl JsonView for InvalidView {
    fn redacted(&self, _: &Payload, cap: usize) -> Result<Vec<u8>, Error> {
        Ok(vec![b'\n'; cap * 2])
    }
    fn members(&self, _: &[u8], _: &[&str]) -> Result<Vec<Option<String>>, Error> {
        Ok(Vec::new())
    }
}

#[test]
fn arguments_over_their_cap_are_left_out() {
    let dir = TempDir::new();
    let log = at(dir.path(), &FakeClock::at(1), Arc::new(InvalidView));
    drop(log.begin(&call("{\"a\":1}"), &spec()).unwrap());
    drop(log);
    assert_sound(dir.path());
    assert_eq!(records(dir.path())[1]["arguments"]["unreadable_bytes"], 7);
}

#[test]
fn records_are_exported_by_time_and_call() {
    let dir = TempDir::new();
    let clock = FakeClock::at(1_000);
    let log = at(dir.path(), &clock, Arc::new(TestJsonView));
    let (early, late) = (call("{}"), call("{}"));
    log.begin(&early, &spec()).unwrap().end(&success(1)).unwrap();
    clock.0.store(2_000, Ordering::SeqCst);
    log.begin(&late, &spec()).unwrap().end(&success(1)).unwrap();
    let exported = |selection: ExportFilter| {
        let mut out = Vec::new();
        let count = export(dir.path(), &mut out, &selection).unwrap();
        (count, String::from_utf8(out).unwrap())
    };
    assert_eq!(exported(ExportFilter::default()).0, 5);
    let (count, lines) = exported(ExportFilter { call: Some(early.id), ..Default::default() });
    assert!(count == 2 && lines.lines().all(|line| line.contains(&early.id.to_string())), "{lines}");
    let (count, lines) = exported(ExportFilter { since: Some(Timestamp::from_unix_ms(2_000)), call: None });
    assert!(count == 2 && lines.lines().all(|line| line.contains(&late.id.to_string())), "{lines}");
}
