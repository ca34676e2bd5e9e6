//! Cached results, shared runs and declared limits, on a real server under real concurrency.

use crate::support::Yard;
use serde_json::{Value, json};
use std::sync::Arc;

/// Appends each start and end to a file, so that overlaps can be counted.
const NOTES: &str = r#"
import os, time
def note(what):
    fd = os.open("data/notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{what}\n".encode())
    os.close(fd)
def run(n):
    note("start")
    time.sleep(0.3)
    note("end")
    return {"n": n, "by": os.getpid()}
"#;

fn notes(yard: &Yard) -> Vec<String> {
    std::fs::read_to_string(yard.path("data/notes")).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn tool(yard: &Yard, extra: &str) {
    yard.file("data/.keep", "").file("tools/job.py", NOTES).file(
        "tools/job.tool.yaml",
        format!("id: job\nkind: python\nentry: tools.job:run\ntimeoutMs: 60000\nsandbox: {{fs: {{write: [data]}}}}\n{extra}"),
    );
}

/// Sends one call per input, all at once, and returns the responses.
fn all_at_once(server: &crate::support::Server, inputs: Vec<Value>) -> Vec<Value> {
    let start = Arc::new(std::sync::Barrier::new(inputs.len()));
    std::thread::scope(|scope| {
        let calls: Vec<_> = inputs
            .into_iter()
            .map(|input| {
                let start = start.clone();
                scope.spawn(move || {
                    start.wait();
                    server.post("job", input.to_string()).json()
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    })
}

#[test]
fn two_hundred_equal_calls_start_the_tool_once() {
    let yard = Yard::new();
    tool(&yard, "deterministic: true\n");
    let server = yard.serve();
    let answers = all_at_once(&server, vec![json!({"n": 1}); 200]);
    assert!(
        answers.iter().all(|answer| answer["body"] == answers[0]["body"] && answer["error"].is_null()),
        "{answers:?}"
    );
    assert_eq!(notes(&yard), ["start", "end"]);
    let again = server.post("job", r#"{ "n": 1 }"#).json();
    assert_eq!((&again["meta"]["cached"], &again["body"]), (&json!(true), &answers[0]["body"]));
    let other = server.post("job", r#"{"n": 2}"#).json();
    assert_eq!(other["meta"]["cached"], json!(false));
    assert_eq!(notes(&yard).len(), 4);
}

#[test]
fn two_hundred_different_calls_respect_the_concurrency() {
    let yard = Yard::new();
    tool(&yard, "deterministic: true\nconcurrency: 5\n");
    // Shorter sleeps: two hundred calls, five at a time.
    yard.file("tools/job.py", NOTES.replace("0.3", "0.01"));
    let server = yard.serve();
    let answers = all_at_once(&server, (0..200).map(|n| json!({"n": n})).collect());
    assert!(answers.iter().enumerate().all(|(n, answer)| answer["body"]["n"] == n), "{answers:?}");
    let (mut now, mut most) = (0, 0);
    for note in notes(&yard) {
        now += if note == "start" { 1 } else { -1 };
        most = most.max(now);
    }
    assert_eq!(now, 0);
    assert!((2..=5).contains(&most), "{most} at a time");
}

#[test]
fn a_waiter_that_disconnects_cancels_no_other() {
    let yard = Yard::new();
    tool(&yard, "deterministic: true\n");
    let server = yard.serve();
    std::thread::scope(|scope| {
        let mut leaver = server.client();
        leaver.write("POST", "/mcp/tool/job", &[], br#"{"n": 7}"#).unwrap();
        let stayer = scope.spawn(|| server.post("job", r#"{"n": 7}"#).json());
        std::thread::sleep(std::time::Duration::from_millis(150));
        drop(leaver);
        let answer = stayer.join().unwrap();
        assert_eq!(answer["body"]["n"], 7, "{answer}");
    });
    assert_eq!(notes(&yard), ["start", "end"]);
}

#[test]
fn cached_results_survive_kill_9_and_a_broken_row_is_dropped() {
    let yard = Yard::new();
    tool(&yard, "deterministic: true\n");
    let server = yard.serve();
    let first = server.post("job", r#"{"n": 1}"#).json();
    server.kill();
    let server = yard.serve();
    let second = server.post("job", r#"{"n": 1}"#).json();
    assert_eq!((&second["meta"]["cached"], &second["body"]), (&json!(true), &first["body"]));
    server.kill();
    // Change what is stored without changing its checksum.
    let file = yard.path(".toolyard/cache.sqlite");
    let change = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
        c.execute(\"UPDATE cache SET data = CAST('{\\\"n\\\":666}' AS BLOB)\"); c.commit()";
    let changed = std::process::Command::new("python3").args(["-c", change]).arg(&file).status().unwrap();
    assert!(changed.success());
    let server = yard.serve();
    let third = server.post("job", r#"{"n": 1}"#).json();
    assert_eq!((&third["meta"]["cached"], &third["body"]["n"]), (&json!(false), &json!(1)), "{third}");
    assert_eq!(notes(&yard).len(), 4, "it ran again");
    // A database file that is garbage is replaced.
    server.kill();
    for suffix in ["", "-wal", "-shm"] {
        let path = yard.path(&format!(".toolyard/cache.sqlite{suffix}"));
        if path.exists() {
            std::fs::write(path, vec![0x55; 5000]).unwrap();
        }
    }
    let server = yard.serve();
    assert_eq!(server.post("job", r#"{"n": 1}"#).json()["body"]["n"], 1);
}

#[test]
fn errors_and_changed_tools_are_not_cached() {
    let yard = Yard::new();
    yard.file("tools/flip.py", "import os\ndef run():\n    if not os.path.exists('ready'):\n        raise ValueError('not yet')\n    return 1\n");
    yard.file("tools/flip.tool.yaml", "id: flip\nkind: python\nentry: tools.flip:run\ndeterministic: true\n");
    assert_eq!(yard.call("flip", &json!({})).0.code, 1);
    yard.file("ready", "");
    assert_eq!(yard.call("flip", &json!({})).1["data"]["result"], 1);
    yard.file("tools/flip.py", "def run():\n    return 2\n");
    assert_eq!(yard.call("flip", &json!({})).1["data"]["result"], 2, "another digest, another result");
}

#[test]
fn a_rate_limit_refuses_and_says_when_to_retry() {
    let yard = Yard::new();
    yard.file(
        "tools/few.tool.yaml",
        "id: few\nkind: cli\nentry: [echo, '1']\nrateLimit: {calls: 2, perMs: 3600000}\n",
    );
    let server = yard.serve();
    let codes: Vec<u16> = (0..3).map(|_| server.post("few", "{}").status).collect();
    assert_eq!(codes, [200, 200, 429]);
    let refused = server.post("few", "{}").json();
    assert!(refused["error"]["details"]["retry_after_ms"].as_u64().unwrap() > 1_000_000, "{refused}");
}

#[test]
fn only_what_is_safe_to_repeat_is_retried() {
    let yard = Yard::new();
    let code = "def run():\n    open('data/tries', 'a').write('x')\n    if len(open('data/tries').read()) < 3:\n        raise OSError('flaky')\n    return 'done'\n";
    yard.file("tools/flaky.py", code).file("data/.keep", "");
    let file = |annotations: &str| {
        format!(
            "id: flaky\nkind: python\nentry: tools.flaky:run\nretry: {{attempts: 5, backoffMs: 1}}\nsandbox: {{fs: {{write: [data]}}}}\n{annotations}"
        )
    };
    yard.file("tools/flaky.tool.yaml", file(""));
    let checked = yard.run(&["check"]).expect(3).stdout;
    assert!(checked.contains("the tool is not declared safe to repeat"), "{checked}");
    yard.file("tools/flaky.tool.yaml", file("annotations: {idempotentHint: true}\n"));
    let answer = yard.serve().post("flaky", "{}").json();
    assert_eq!((&answer["body"], &answer["meta"]["attempts"]), (&json!("done"), &json!(3)));
}

#[test]
fn only_tools_that_declare_the_context_get_it() {
    let yard = Yard::new();
    let code =
        "import json, os\ndef run():\n    return json.loads(os.environ.get('TOOLYARD_CONTEXT', 'null'))\n";
    yard.file("tools/who.py", code);
    yard.file("tools/asks.tool.yaml", "id: asks\nkind: python\nentry: tools.who:run\ncontext: true\n");
    yard.file("tools/silent.tool.yaml", "id: silent\nkind: python\nentry: tools.who:run\n");
    let context = yard.call("asks", &json!({})).1["data"].clone();
    assert_eq!((&context["caller"], &context["edge"]), (&json!("local"), &json!("cli")));
    for member in ["callId", "conversationId", "roots", "traceparent", "locale", "permissions", "deadline"] {
        assert!(context.get(member).is_some(), "{member} is not in {context}");
    }
    let silent = yard.call("silent", &json!({})).1;
    assert!(silent["data"].is_null(), "{silent}");
}
