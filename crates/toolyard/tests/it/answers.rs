//! Misbehaving tools: whatever a child does, the caller gets a clear error and no process is left over.

use crate::support::{Kind, TIMEOUT, Yard, assert_no_survivor, marker};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The expected error of a failed call, on the command line and over HTTP.
struct Failure<'a> {
    kind: &'a str,
    code: &'a str,
    exit: i32,
    http: u16,
    message: &'a str,
}

const BROKEN: Failure =
    Failure { kind: "invalid_output", code: "EINTERNAL", exit: 1, http: 502, message: "" };
const FAILED: Failure = Failure { kind: "tool_failed", code: "EINTERNAL", exit: 1, http: 502, message: "" };
const MISSING: Failure =
    Failure { kind: "file_not_found", code: "EINTERNAL", exit: 4, http: 502, message: "" };

#[track_caller]
fn assert_fails(yard: &Yard, kind: Kind, expected: &Failure<'_>) -> Value {
    let (ran, envelope) = yard.call("tool", &json!({}));
    assert_eq!(ran.code, expected.exit, "{kind:?}: {ran:?}");
    assert_eq!((&envelope["status"], &envelope["data"]), (&json!("failure"), &Value::Null));
    let (error, details) = (&envelope["error"], &envelope["error"]["error_details"]);
    let message = error["error_message"].as_str().unwrap();
    assert!(message.contains(expected.message), "{kind:?}: {message:?} has no {:?}", expected.message);
    assert_eq!(
        (&details["kind"], &details["code"]),
        (&json!(expected.kind), &json!(expected.code)),
        "{kind:?}"
    );
    assert!(error["correlation_id"].is_string(), "{error}");
    // The same failure as text, and over HTTP.
    let shown = yard.run(&["call", "tool"]);
    assert!(shown.stderr.starts_with(&format!("error[{}]: {message}", expected.code)), "{shown:?}");
    assert_eq!((shown.code, shown.stdout.as_str()), (expected.exit, ""));
    let answer = yard.serve().post("tool", "{}");
    assert_eq!(answer.status, expected.http, "{kind:?}: {}", answer.json());
    let answer = answer.json();
    assert_eq!(answer["error"]["code"], expected.code, "{answer}");
    assert_eq!(answer["error"]["message"], message, "{answer}");
    assert_eq!(answer["body"], Value::Null);
    envelope
}

/// For every kind: the script's output is refused with this message (toolpack, manifest).
#[track_caller]
fn refused(script: &str, pack: &str, manifest: &str) {
    for kind in Kind::ALL {
        let yard = Yard::new();
        yard.shell(kind, "tool", script);
        let message = if kind == Kind::Cli { pack } else { manifest };
        let envelope = assert_fails(&yard, kind, &Failure { message, ..BROKEN });
        assert!(envelope["error"]["error_details"]["hint"].as_str().unwrap().contains("print"), "{envelope}");
    }
}

#[test]
fn a_tool_that_prints_nothing() {
    refused("cat >/dev/null", "the tool printed nothing on stdout", "the tool printed nothing on stdout");
}

#[test]
fn a_tool_that_prints_only_white_space() {
    refused("echo; echo ' '", "the tool printed nothing on stdout", "the tool printed nothing on stdout");
}

#[test]
fn a_tool_that_gives_two_answers() {
    refused(
        "echo '{\"a\":1}'; echo '{\"a\":2}'",
        "not JSON",
        "the tool printed a second result after its result",
    );
}

#[test]
fn a_tool_that_does_not_print_json() {
    refused("echo hello", "the tool's output is not JSON", "the tool's output is not JSON");
}

#[test]
fn a_tool_that_prints_invalid_utf_8() {
    refused(
        "printf '{\"data\":\"\\377\"}'",
        "the tool's output is not UTF-8",
        "the tool's output is not UTF-8",
    );
}

#[test]
fn a_tool_whose_answer_has_a_duplicate_name() {
    refused("echo '{\"a\":1,\"a\":2}'", "not JSON", "not JSON");
}

#[test]
fn terminal_escapes_in_a_broken_answer_are_made_visible() {
    refused("printf '\\033]0;owned\\007'", "\\\\u{1b}]0;owned", "\\\\u{1b}]0;owned");
}

#[test]
fn a_tool_that_exits_with_1_is_reported_with_the_escaped_end_of_its_stderr() {
    let script = "echo half an answer; i=0; while [ $i -lt 50 ]; do echo line $i >&2; i=$((i+1)); done
                  printf '\\033[31mbad thing\\033[0m\\n' >&2; exit 1";
    for kind in Kind::ALL {
        let yard = Yard::new();
        yard.shell(kind, "tool", script);
        let message = "the tool failed (exit status 1): \\u{1b}[31mbad thing\\u{1b}[0m";
        let envelope = assert_fails(&yard, kind, &Failure { message, ..FAILED });
        let details = &envelope["error"]["error_details"];
        let lines: Vec<&str> = details["stderr"].as_str().unwrap().lines().collect();
        assert_eq!((lines.len(), lines[0], lines[18]), (20, "line 31", "line 49"));
        assert_eq!(details["exit"], "exit status 1");
        let shown = yard.run(&["call", "tool"]).stderr;
        assert!(!shown.contains('\u{1b}') && shown.contains("  | line 49\n"), "{shown}");
    }
}

#[test]
fn an_answer_does_not_count_when_the_tool_then_fails() {
    for kind in Kind::ALL {
        let yard = Yard::new();
        yard.shell(kind, "tool", "echo '{\"a\":1}'; exit 3");
        let message = "the tool failed (exit status 3) without output on stderr";
        assert_fails(&yard, kind, &Failure { message, ..FAILED });
    }
}

#[test]
fn a_tool_that_is_killed_is_reported_with_the_signal() {
    for (signal, name) in [("KILL", "SIGKILL"), ("SEGV", "SIGSEGV"), ("TERM", "SIGTERM")] {
        for kind in Kind::ALL {
            let yard = Yard::new();
            yard.shell(kind, "tool", &format!("kill -{signal} $$"));
            assert_fails(&yard, kind, &Failure { message: &format!("killed by {name}"), ..FAILED });
        }
    }
}

#[test]
fn an_error_the_tool_itself_reports_has_its_code_and_message() {
    let yard = Yard::new();
    yard.shell(
        Kind::Cli,
        "tool",
        "echo '{\"error\":{\"code\":\"EINVAL\",\"message\":\"no such city\"}}'; exit 1",
    );
    let expected =
        Failure { kind: "invalid_input", code: "EINVAL", exit: 3, http: 400, message: "no such city" };
    let envelope = assert_fails(&yard, Kind::Cli, &expected);
    assert_eq!(envelope["error"]["error_details"]["tool_code"], "EINVAL");
    let yard = Yard::new();
    yard.shell(
        Kind::Process,
        "tool",
        r#"echo '{"content":[{"type":"text","text":"no such city"}],"isError":true}'"#,
    );
    let (ran, envelope) = yard.call("tool", &json!({}));
    assert_eq!((ran.code, &envelope["error"]["error_message"]), (1, &json!("no such city")));
    let answer = yard.serve().post("tool", "{}");
    assert_eq!((answer.status, &answer.json()["error"]["message"]), (502, &json!("no such city")));
    assert_eq!(
        answer.json()["body"]["content"][0]["text"],
        "no such city",
        "the output of the tool is returned unchanged"
    );
}

#[test]
fn a_tool_that_forks_and_lingers_neither_delays_its_answer_nor_survives_it() {
    // The lingering process holds stdout and stderr open; the daemonised one has left session and group.
    let linger =
        "use POSIX; if (!fork) { setsid(); exit if fork; sleep 1 while 1 } if (!fork) { sleep 1 while 1 }
                  select undef, undef, undef, .2; print qq({\"data\":{\"n\":7}}\n)";
    for kind in Kind::ALL {
        let (yard, marker) = (Yard::new(), marker());
        yard.tool(kind, "tool", &["/usr/bin/perl", "-e", linger, &marker], json!({}));
        let started = Instant::now();
        let (ran, envelope) = yard.call("tool", &json!({}));
        assert_eq!(ran.code, 0, "{kind:?}: {ran:?}");
        let expected = if kind == Kind::Cli { json!({"n": 7}) } else { json!({"data": {"n": 7}}) };
        assert_eq!(envelope["data"], expected);
        assert!(started.elapsed() < Duration::from_secs(10), "{kind:?} took {:?}", started.elapsed());
        assert_no_survivor(&marker, Duration::from_secs(2));
    }
}

/// 60 KB are within the limit; 600 KB are more than a pipe holds, so that the writer must wait.
fn inputs() -> [(usize, Value, Value); 2] {
    let large = json!({"limits": {"input": 1_000_000}});
    [(60_000, json!({}), json!({})), (600_000, large, json!({}))]
}

fn large_arguments(size: usize) -> Value {
    json!({"text": "x".repeat(size)})
}

#[test]
fn a_tool_may_close_its_stdin_early_or_never_read_it() {
    for script in ["exec 0<&-; sleep .1; echo '{\"n\":1}'", "sleep .1; echo '{\"n\":1}'"] {
        for kind in Kind::ALL {
            for (size, pack, manifest) in inputs() {
                let yard = Yard::new();
                yard.file("toolyard.toml", "[limits]\ninput = 1000000\n");
                let extra = if kind == Kind::Cli { pack } else { manifest };
                yard.tool(kind, "tool", &["/bin/sh", "-c", script], extra);
                let answer = yard.serve().post("tool", large_arguments(size).to_string());
                assert_eq!(
                    (answer.status, answer.json()["body"].clone()),
                    (200, json!({"n": 1})),
                    "{kind:?} {size}"
                );
            }
        }
    }
}

#[test]
fn a_tool_that_reads_slowly_gets_every_byte() {
    for kind in Kind::ALL {
        let yard = Yard::new();
        yard.file("toolyard.toml", "[limits]\ninput = 1000000\n");
        yard.shell(kind, "tool", "sleep .2; wc -c");
        let arguments = large_arguments(600_000).to_string();
        let frame = if kind == Kind::Cli { 0 } else { "{\"arguments\":}\n".len() };
        assert_eq!(
            yard.serve().post("tool", &arguments).json()["body"],
            json!(arguments.len() + frame),
            "{kind:?}"
        );
    }
}

#[test]
fn a_missing_program_is_a_warning_at_load_and_a_clear_error_when_called() {
    for kind in Kind::ALL {
        let yard = Yard::new();
        yard.tool(kind, "tool", &["./bin/nowhere"], json!({})).shell(Kind::Cli, "other", "echo 1");
        let problems = yard.run(&["check", "--json"]).expect(0).json();
        assert_eq!(problems[0]["severity"], "warning", "{problems}");
        assert!(
            problems[0]["message"].as_str().unwrap().contains("'./bin/nowhere' was not found"),
            "{problems}"
        );
        let message = "the program './bin/nowhere' was not found or is not executable";
        let envelope = assert_fails(&yard, kind, &Failure { message, ..MISSING });
        assert!(
            envelope["error"]["error_details"]["hint"].as_str().unwrap().contains("'entry'"),
            "{envelope}"
        );
        assert_eq!(yard.call("other", &json!({})).1["data"]["result"], 1);
        // The program may be installed later, without a reload.
        yard.executable("bin/nowhere", "#!/bin/sh\necho '{\"n\":2}'\n");
        assert_eq!(yard.call("tool", &json!({})).1["data"], json!({"n": 2}));
    }
}

#[test]
fn a_program_of_the_search_path_that_is_missing_is_named() {
    for kind in [Kind::Cli, Kind::Process] {
        let yard = Yard::new();
        yard.tool(kind, "tool", &["no-such-program-anywhere"], json!({}));
        assert_fails(
            &yard,
            kind,
            &Failure { message: "'no-such-program-anywhere' was not found", ..MISSING },
        );
    }
}

#[test]
fn a_script_whose_interpreter_is_missing_is_reported() {
    for kind in Kind::ALL {
        let yard = Yard::new();
        yard.tool(kind, "tool", &["./script"], json!({})).executable("script", "#!/nowhere/interpreter\n");
        assert_fails(
            &yard,
            kind,
            &Failure { message: "the interpreter or loader it names is missing", ..MISSING },
        );
    }
}

#[test]
fn a_file_that_is_no_program_is_reported() {
    for kind in Kind::ALL {
        let yard = Yard::new();
        yard.tool(kind, "tool", &["./data"], json!({})).executable("data", "just text");
        assert_fails(&yard, kind, &Failure { message: "cannot start", ..MISSING });
    }
}

#[test]
fn a_script_file_that_is_missing_shows_what_the_interpreter_said() {
    for kind in Kind::ALL {
        let yard = Yard::new();
        yard.tool(kind, "tool", &["/bin/sh", "tools/gone.sh"], json!({}));
        assert_fails(&yard, kind, &Failure { message: "tools/gone.sh", ..FAILED });
    }
}

#[test]
fn a_slow_tool_is_stopped_at_its_timeout_or_the_callers() {
    for kind in Kind::ALL {
        let (yard, marker) = (Yard::new(), marker());
        let limit = if kind == Kind::Cli {
            json!({"timeoutMs": 300})
        } else {
            json!({"policy": {"timeout_ms": 300}})
        };
        yard.tool(kind, "tool", &["/bin/sh", "-c", "echo busy >&2; sleep 300", &marker], limit);
        let message = "'tool' did not finish in time (its limit is 300 ms)";
        let expected = Failure { kind: "timeout", code: "ETIMEOUT", exit: 5, http: 504, message };
        let started = Instant::now();
        let envelope = assert_fails(&yard, kind, &expected);
        assert!(started.elapsed() < TIMEOUT / 2);
        let details = &envelope["error"]["error_details"];
        assert_eq!((&details["stderr"], &details["retryable"]), (&json!("busy"), &json!(true)));
        assert_no_survivor(&marker, Duration::from_secs(2));
    }
    let yard = Yard::new();
    yard.shell(Kind::Cli, "tool", "sleep 300");
    let ran = yard.run(&["call", "tool", "--timeout", "200ms"]).expect(5);
    assert!(ran.stderr.starts_with("error[ETIMEOUT]: "), "{ran:?}");
}
