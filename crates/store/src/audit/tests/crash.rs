//! What a killed process leaves behind.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

const STATE: &str = "TOOLYARD_TEST_AUDIT_STATE";

/// Records calls until it is killed.
#[test]
#[ignore = "helper of kill_9_loses_no_acknowledged_record"]
fn victim() {
    let state = std::env::var_os(STATE).unwrap();
    let log = open(Path::new(&state), Options { segment_bytes: 200_000, ..Default::default() });
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let log = log.clone();
            std::thread::spawn(move || {
                loop {
                    let call = call("{\"text\":\"hello\"}");
                    let begun = log.begin(&call, &spec()).unwrap();
                    begun.end(&success(3)).unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "ack {}", call.id).unwrap();
                    out.flush().unwrap();
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
}

#[test]
fn kill_9_loses_no_acknowledged_record() {
    for round in 0..3 {
        let dir = TempDir::new();
        let mut child = helper("audit::tests::crash::victim", STATE, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut acknowledged = Vec::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            acknowledged.extend(line.strip_prefix("ack ").map(str::to_owned));
            if acknowledged.len() == 1000 + round * 37 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(acknowledged.len() >= 1000, "only {} calls", acknowledged.len());
        let report = assert_sound(dir.path());
        assert!(report.notes.iter().any(|note| note.what.contains("never closed")), "{report:?}");
        let written = whole_records(dir.path());
        for id in acknowledged {
            for kind in ["begin", "end"] {
                assert!(written.contains(&(kind.into(), id.clone())), "no {kind} of {id}");
            }
        }
        // A new process opens a segment of its own.
        open(dir.path(), Options::default()).begin(&call("{}"), &spec()).unwrap().end(&success(1)).unwrap();
        assert_sound(dir.path());
    }
}

fn whole_records(state: &Path) -> std::collections::HashSet<(String, String)> {
    let text = |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    records(state).iter().map(|record| (text(record, "kind"), text(record, "call"))).collect()
}

/// A segment with a head that covers its first call only, and a second call after it, as a crash leaves it.
fn crashed() -> (TempDir, u64) {
    let dir = TempDir::new();
    let state = dir.path().join("live");
    std::fs::create_dir(&state).unwrap();
    let log = open(&state, Options::default());
    log.begin(&call("{}"), &spec()).unwrap().end(&success(1)).unwrap();
    sync::flush(&log.shared);
    let head = std::fs::read(&files(&state, "audit-heads", ".head")[0]).unwrap();
    let synced = std::fs::metadata(&segments(&state)[0]).unwrap().len();
    log.begin(&call("{}"), &spec()).unwrap().end(&success(1)).unwrap();
    let copy = dir.path().join("crashed");
    for (folder, path) in
        [("audit", &segments(&state)[0]), ("audit-heads", &files(&state, "audit-heads", "")[0])]
    {
        let to = copy.join(folder);
        std::fs::create_dir_all(&to).unwrap();
        std::fs::copy(path, to.join(path.file_name().unwrap())).unwrap();
    }
    std::fs::write(&files(&copy, "audit-heads", "")[0], head).unwrap();
    (dir, synced)
}

#[test]
fn a_tail_torn_after_the_head_is_a_note_and_before_it_a_problem() {
    let (dir, synced) = crashed();
    let state = dir.path().join("crashed");
    let segment = &segments(&state)[0];
    let whole = std::fs::read(segment).unwrap();
    assert!(whole.len() as u64 > synced);
    for cut in 1..whole.len() {
        std::fs::write(segment, &whole[..cut]).unwrap();
        let report = verify(&state).unwrap();
        assert_eq!(report.problems.is_empty(), cut as u64 >= synced, "cut at {cut}: {report:?}");
        if report.problems.is_empty() && whole[cut - 1] != b'\n' {
            assert!(
                report.notes.iter().any(|note| note.what.contains("torn tail")),
                "cut at {cut}: {report:?}"
            );
        }
    }
    // Blocks that were never written read as zeros.
    let mut zeros = whole.clone();
    zeros[synced as usize + 10..].fill(0);
    std::fs::write(segment, zeros).unwrap();
    assert!(assert_sound(&state).notes.iter().any(|note| note.what.contains("torn tail")));
}

#[test]
fn a_damaged_name_of_the_latest_segment_is_replaced_by_the_newest() {
    let dir = TempDir::new();
    for time in [1_000, 2_000, 3_000] {
        // The newest is found by its id, which orders segments only if they were made at different times.
        let log = at(dir.path(), &FakeClock::at(time), Arc::new(TestJsonView));
        log.begin(&call("{}"), &spec()).unwrap().end(&success(1)).unwrap();
        log.close();
        std::fs::write(dir.path().join("audit/latest"), "").unwrap();
    }
    assert_sound(dir.path());
    let opens: Vec<Value> = records(dir.path()).into_iter().filter(|r| r["kind"] == "open").collect();
    assert_eq!(opens[2]["follows"], opens[1]["segment"]);
}

#[test]
fn an_empty_head_without_a_segment_is_a_process_killed_before_its_first_record() {
    let dir = TempDir::new();
    let log = open(dir.path(), Options::default());
    log.begin(&call("{}"), &spec()).unwrap().end(&success(1)).unwrap();
    log.close();
    let head = dir.path().join(format!("audit-heads/{}.head", new_id(&SystemClock, &SystemRandom)));
    std::fs::write(&head, "").unwrap();
    let report = assert_sound(dir.path());
    assert!(report.notes.iter().any(|note| note.what.contains("about to be opened")), "{report:?}");
    // Anything in it is more than a crash can leave.
    std::fs::write(&head, "x").unwrap();
    assert_eq!(verify(dir.path()).unwrap().problems.len(), 1);
}
