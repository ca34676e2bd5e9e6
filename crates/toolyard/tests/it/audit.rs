//! The audit log with the real program: every answered call is recorded, every change of a record is found.

use crate::support::{Kind, Yard, signal};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A yard after ten calls and a graceful stop of its server.
fn recorded() -> Yard {
    let yard = Yard::new();
    yard.tool(Kind::Cli, "echo", &["/bin/cat"], json!({}));
    let server = yard.serve();
    let mut client = server.client();
    for n in 0..10 {
        client.send(
            "POST",
            "/mcp/tool/echo",
            &[],
            json!({"n": n, "password": "hunter2"}).to_string().as_bytes(),
        );
    }
    drop(client);
    assert_eq!(server.stop(), 0);
    yard
}

fn segment(yard: &Yard) -> PathBuf {
    let entries = std::fs::read_dir(yard.path(".toolyard/audit")).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn verify_finds_every_changed_removed_reordered_or_cut_record() {
    let yard = recorded();
    let path = segment(&yard);
    let whole = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 22, "open, ten begins and ends, close");
    let intact = yard.run(&["audit", "verify"]).expect(0);
    assert_eq!(intact.stdout, "22 record(s) in 1 segment(s): intact\n");

    let without = |n: usize| {
        lines.iter().enumerate().filter(|(i, _)| *i != n).map(|(_, line)| *line).collect::<String>()
    };
    let swapped = |a: usize, b: usize| {
        let mut lines = lines.clone();
        lines.swap(a, b);
        lines.concat()
    };
    let mut cases = vec![
        ("an argument changed".to_owned(), whole.replacen("\"n\":4", "\"n\":5", 1)),
        (
            "a status changed".to_owned(),
            whole.replacen("\"status\":\"success\"", "\"status\":\"failure\"", 1),
        ),
        ("a record doubled".to_owned(), [&lines[..5], &lines[4..]].concat().concat()),
        ("the last two cut".to_owned(), lines[..20].concat()),
        ("half a line cut".to_owned(), whole[..whole.len() - 40].to_owned()),
        ("emptied".to_owned(), String::new()),
    ];
    cases.extend((0..lines.len()).map(|n| (format!("record {n} removed"), without(n))));
    cases.extend(
        (0..lines.len() - 1).map(|n| (format!("records {n} and {} reordered", n + 1), swapped(n, n + 1))),
    );
    for (what, text) in &cases {
        assert_ne!(*text, whole, "{what}");
        std::fs::write(&path, text).unwrap();
        let ran = yard.run(&["audit", "verify"]);
        assert!(
            ran.code == 11 && ran.stdout.contains("PROBLEM ") && ran.stdout.contains("NOT INTACT"),
            "{what}: {ran:?}"
        );
    }
    let report = yard.run(&["audit", "verify", "--json"]).expect(11).json();
    assert_eq!(report["intact"], false);
    assert!(!report["problems"].as_array().unwrap().is_empty());
    std::fs::remove_file(&path).unwrap();
    yard.run(&["audit", "verify"]).expect(11);
    std::fs::write(&path, whole).unwrap();
    yard.run(&["audit", "verify"]).expect(0);
}

#[test]
fn list_and_export_show_the_calls_without_their_secrets() {
    let yard = recorded();
    yard.run(&["call", "nowhere"]).expect(4);
    let list = yard.run(&["audit", "list", "--json"]).expect(0).json();
    let rows = list.as_array().unwrap();
    assert_eq!(rows.len(), 11);
    assert_eq!(
        (&rows[0]["tool"], &rows[0]["status"], &rows[0]["edge"]),
        (&json!("nowhere"), &json!("refused"), &json!("cli"))
    );
    assert_eq!(
        (&rows[1]["tool"], &rows[1]["status"], &rows[1]["edge"]),
        (&json!("tools.echo"), &json!("success"), &json!("http"))
    );
    let call = rows[1]["call"].as_str().unwrap();
    let exported = yard.run(&["audit", "export", "--call", call]).expect(0).stdout;
    assert_eq!(exported.lines().count(), 2, "{exported}");
    assert!(exported.contains("\"n\":9") && exported.contains("[redacted]"), "{exported}");
    assert!(!yard.run(&["audit", "export"]).stdout.contains("hunter2"));
    let refused = yard.run(&["audit", "list", "--state", "refused"]).expect(0).stdout;
    assert_eq!(refused.lines().count(), 2, "a header and one row: {refused}");
    // The index can be deleted; it is rebuilt from the log.
    std::fs::remove_file(yard.path(".toolyard/audit-index.sqlite")).unwrap();
    assert_eq!(yard.run(&["audit", "list", "--json"]).expect(0).json(), list);
}

#[test]
fn a_yard_without_calls_has_an_intact_and_empty_log() {
    let yard = Yard::new();
    assert_eq!(yard.run(&["audit", "list", "--json"]).expect(0).json(), json!([]));
    yard.run(&["audit", "verify"]).expect(0);
    assert_eq!(yard.run(&["audit", "export"]).expect(0).stdout, "");
}

#[test]
fn kill_9_during_1000_calls_loses_no_answered_call() {
    const CALLS: usize = 1000;
    const CONNECTIONS: usize = 4;
    let yard = Yard::new();
    yard.tool(Kind::Binary, "echo", &["/bin/cat"], json!({}));
    let started = Instant::now();
    let server = yard.serve();
    let (answered, refused) = (Mutex::new(HashSet::new()), AtomicUsize::new(0));
    let pid = server.pid();
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut client = server.client();
                for n in 0..CALLS / CONNECTIONS {
                    // One in five is refused and must be in the log too.
                    let (tool, status) = if n % 5 == 4 { ("nowhere", 404) } else { ("echo", 200) };
                    if client.write("POST", &format!("/mcp/tool/{tool}"), &[], b"{\"a\":1}").is_err() {
                        return;
                    }
                    let Ok(answer) = client.read() else { return };
                    assert_eq!(answer.status, status);
                    let id = answer.json()["meta"]["traceId"].as_str().unwrap().to_owned();
                    let mut answered = answered.lock().unwrap();
                    answered.insert((id, status));
                    refused.fetch_add(usize::from(status == 404), Ordering::Relaxed);
                    if answered.len() == CALLS / 2 {
                        signal(pid, libc::SIGKILL);
                    }
                }
            });
        }
    });
    drop(server);
    let answered = answered.into_inner().unwrap();
    assert!(
        answered.len() >= CALLS / 2 && answered.len() < CALLS,
        "{} answers before the kill",
        answered.len()
    );
    assert!(refused.into_inner() > 0);

    let verified = yard.run(&["audit", "verify", "--json"]).expect(0).json();
    assert_eq!(verified["intact"], true, "{verified}");
    let mut kinds: HashMap<String, Vec<String>> = HashMap::new();
    for record in yard.records() {
        if let Some(call) = record["call"].as_str() {
            kinds.entry(call.to_owned()).or_default().push(record["kind"].as_str().unwrap().to_owned());
        }
    }
    for (id, status) in &answered {
        let expected: &[&str] = if *status == 200 { &["begin", "end"] } else { &["refused"] };
        assert_eq!(
            kinds.get(id).map(Vec::as_slice),
            Some(expected.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice()),
            "{id}"
        );
    }
    // The next start recovers by itself.
    let server = yard.serve();
    assert_eq!(server.post("echo", "{}").status, 200);
    assert_eq!(server.stop(), 0);
    yard.run(&["audit", "verify"]).expect(0);
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[test]
fn several_processes_write_their_own_chains_in_one_yard() {
    let yard = Yard::new();
    yard.tool(Kind::Cli, "echo", &["/bin/cat"], json!({}));
    let server = yard.serve();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| yard.run(&["call", "echo"]).expect(0));
        }
        scope.spawn(|| (0..10).for_each(|_| assert_eq!(server.post("echo", "{}").status, 200)));
    });
    assert_eq!(server.stop(), 0);
    let verified = yard.run(&["audit", "verify", "--json"]).expect(0).json();
    assert_eq!((&verified["intact"], &verified["segments"]), (&json!(true), &json!(5)), "{verified}");
    let ends = yard.records().into_iter().filter(|record: &Value| record["kind"] == "end").count();
    assert_eq!(ends, 14);
}
