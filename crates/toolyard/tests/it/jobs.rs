//! Jobs with the real program: timing, idempotency keys, cancellation, restarts, other processes, `--url`.

use crate::support::{
    Kind, Server, TIMEOUT, Yard, assert_no_survivor, eventually, marker, processes_with, signal,
};
use serde_json::{Value, json};
use std::time::Duration;

fn shell(yard: &Yard, name: &str, script: &str, extra: Value) {
    yard.file("data/.keep", "");
    yard.tool(Kind::Cli, name, &["/bin/sh", "-c", script], extra);
}

fn post(server: &Server, tool: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let answer = server.client().send("POST", &format!("/v1/tools/{tool}"), headers, body.as_bytes());
    (answer.status, answer.json())
}

fn job(server: &Server, id: &str, query: &str) -> Value {
    server.get(&format!("/v1/jobs/{id}{query}")).json()
}

fn counting(yard: &Yard, name: &str, extra: Value) {
    let mut extra = extra;
    extra["sandbox"] = json!({"fs": {"write": ["data"]}});
    shell(yard, name, "cat >/dev/null; echo x >>data/ran; echo '{\"data\":{\"ok\":true}}'", extra);
}

fn runs(yard: &Yard) -> usize {
    std::fs::read_to_string(yard.path("data/ran")).map_or(0, |text| text.lines().count())
}

#[test]
fn each_timing_answers_as_it_says() {
    let yard = Yard::new();
    for timing in ["sync", "async_short", "async_medium", "async_long", "fire_and_forget"] {
        shell(&yard, timing, "echo '{\"data\":{\"ok\":true}}'", json!({"timing": timing}));
    }
    let server = yard.serve();
    let (status, plain) = post(&server, "sync", &[], "{}");
    assert_eq!((status, &plain["data"]["ok"], &plain["meta"]["job_id"]), (200, &json!(true), &Value::Null));
    for timing in ["async_short", "async_medium"] {
        let (status, waited) = post(&server, timing, &[], "{}");
        assert_eq!((status, &waited["data"]["ok"]), (200, &json!(true)));
        let id = waited["meta"]["job_id"].as_str().unwrap();
        let stored = job(&server, id, "");
        assert_eq!((&stored["state"], &stored["outcome"]["data"]["ok"]), (&json!("complete"), &json!(true)));
    }
    for timing in ["async_long", "fire_and_forget"] {
        let (status, started) = post(&server, timing, &[], "{}");
        assert_eq!((status, &started["data"]["timing"]), (202, &json!(timing)), "{started}");
        let id = started["data"]["job_id"].as_str().unwrap();
        let over = job(&server, id, "?wait_ms=30000");
        assert_eq!((&over["state"], &over["outcome"]["data"]["ok"]), (&json!("complete"), &json!(true)));
    }
    let (status, _) = post(&server, "async_short", &[("prefer", "respond-async")], "{}");
    assert_eq!(status, 202);
}

#[test]
fn a_failed_job_keeps_its_error() {
    let yard = Yard::new();
    shell(&yard, "bad", "echo boom >&2; exit 3", json!({"timing": "fire_and_forget"}));
    let server = yard.serve();
    let (_, started) = post(&server, "bad", &[], "{}");
    let over = job(&server, started["data"]["job_id"].as_str().unwrap(), "?wait_ms=30000");
    assert_eq!(
        (&over["state"], &over["outcome"]["error"]["kind"]),
        (&json!("failed"), &json!("tool_failed"))
    );
    assert!(over["outcome"]["error"]["message"].as_str().unwrap().contains("boom"), "{over}");
}

#[test]
fn a_key_makes_two_calls_one_also_for_tools_without_a_timing() {
    let yard = Yard::new();
    counting(&yard, "slow", json!({"timing": "async_short"}));
    counting(&yard, "plain", json!({}));
    let server = yard.serve();
    for tool in ["slow", "plain"] {
        let before = runs(&yard);
        let key = [("idempotency-key", "k1")];
        let (first, second) = (post(&server, tool, &key, "{}"), post(&server, tool, &key, "{}"));
        assert_eq!((first.0, second.0), (200, 200));
        assert_eq!(first.1["meta"]["job_id"], second.1["meta"]["job_id"]);
        assert_eq!(second.1["data"]["ok"], true);
        assert_eq!(runs(&yard), before + 1, "{tool} ran twice");
        post(&server, tool, &[("idempotency-key", "k2")], "{}");
        assert_eq!(runs(&yard), before + 2);
    }
    let (status, refused) = post(&server, "slow", &[("idempotency-key", "")], "{}");
    assert_eq!((status, &refused["error"]["error_type"]), (400, &json!("ValidationError")));
}

#[test]
fn cancelling_kills_the_work() {
    let (yard, mark) = (Yard::new(), marker());
    shell(&yard, "long", &format!("sleep 1000; : {mark}"), json!({"timing": "async_long"}));
    let server = yard.serve();
    let (_, started) = post(&server, "long", &[], "{}");
    let id = started["data"]["job_id"].as_str().unwrap();
    eventually("it runs", TIMEOUT, || !processes_with(&mark).is_empty());
    let answer = server.client().send("POST", &format!("/v1/jobs/{id}/cancel"), &[], b"");
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("cancelled")));
    assert_no_survivor(&mark, Duration::from_secs(1));
    let again = server.client().send("POST", &format!("/v1/jobs/{id}/cancel"), &[], b"");
    assert_eq!(again.json()["state"], "cancelled");
}

#[test]
fn another_process_can_see_and_cancel_a_job() {
    let (yard, mark) = (Yard::new(), marker());
    shell(&yard, "long", &format!("sleep 1000; : {mark}"), json!({"timing": "async_long"}));
    let server = yard.serve();
    let (_, started) = post(&server, "long", &[], "{}");
    let id = started["data"]["job_id"].as_str().unwrap();
    eventually("it runs", TIMEOUT, || !processes_with(&mark).is_empty());
    let list = yard.run(&["job", "list", "--json"]).expect(0).json();
    assert_eq!((&list["jobs"][0]["job_id"], &list["jobs"][0]["state"]), (&json!(id), &json!("running")));
    let cancelled = yard.run(&["job", "cancel", id, "--json"]).expect(0).json();
    assert_eq!(cancelled["state"], "cancelled");
    assert_no_survivor(&mark, Duration::from_secs(1));
}

#[test]
fn a_caller_who_leaves_before_the_answer_cancels_unless_there_is_a_key() {
    let (yard, mark, keyed) = (Yard::new(), marker(), marker());
    shell(&yard, "left", &format!("sleep 1000; : {mark}"), json!({"timing": "async_short"}));
    shell(&yard, "keyed", &format!("sleep 1000; : {keyed}"), json!({"timing": "async_short"}));
    let server = yard.serve();
    let mut leaver = server.client();
    leaver.write("POST", "/v1/tools/left", &[], b"{}").unwrap();
    let mut holder = server.client();
    holder.write("POST", "/v1/tools/keyed", &[("idempotency-key", "k")], b"{}").unwrap();
    for mark in [&mark, &keyed] {
        eventually("it runs", TIMEOUT, || !processes_with(mark).is_empty());
    }
    drop((leaver, holder));
    assert_no_survivor(&mark, Duration::from_secs(2));
    assert!(!processes_with(&keyed).is_empty(), "the job with a key was cancelled");
    let list = server.get("/v1/jobs").json();
    let mut states: Vec<&str> =
        list["jobs"].as_array().unwrap().iter().map(|job| job["state"].as_str().unwrap()).collect();
    // Either connection may have been served first.
    states.sort_unstable();
    assert_eq!(states, ["cancelled", "running"]);
    drop(server);
    assert_no_survivor(&keyed, Duration::from_secs(2));
}

#[test]
fn jobs_of_a_killed_server_run_again_only_where_that_is_safe() {
    let yard = Yard::new();
    let script =
        "cat >/dev/null; echo x >>data/ran; [ -e go ] || sleep 1000; echo '{\"data\":{\"ok\":true}}'";
    for (name, safe) in [("safe", true), ("unsafe", false)] {
        let extra = json!({"timing": "async_long", "annotations": {"idempotentHint": safe},
            "sandbox": {"fs": {"write": ["data"]}}});
        shell(&yard, name, script, extra);
    }
    let server = yard.serve();
    let ids = ["safe", "unsafe"]
        .map(|tool| post(&server, tool, &[], "{}").1["data"]["job_id"].as_str().unwrap().to_owned());
    eventually("both run", TIMEOUT, || runs(&yard) == 2);
    server.kill();
    yard.file("go", "");
    let server = yard.serve();
    let over = job(&server, &ids[0], "?wait_ms=30000");
    assert_eq!(
        (&over["state"], &over["attempt"], &over["outcome"]["data"]["ok"]),
        (&json!("complete"), &json!(2), &json!(true))
    );
    let lost = job(&server, &ids[1], "?wait_ms=30000");
    assert_eq!((&lost["state"], &lost["attempt"]), (&json!("unknown"), &json!(1)));
    assert_eq!(runs(&yard), 3);
}

#[test]
fn a_graceful_stop_leaves_repeatable_jobs_for_the_next_process_and_ends_the_rest() {
    let yard = Yard::new();
    let script =
        "cat >/dev/null; echo x >>data/ran; [ -e go ] || sleep 1000; echo '{\"data\":{\"ok\":true}}'";
    for (name, safe) in [("safe", true), ("unsafe", false)] {
        let extra = json!({"timing": "async_long", "annotations": {"idempotentHint": safe},
            "sandbox": {"fs": {"write": ["data"]}}});
        shell(&yard, name, script, extra);
    }
    let server = yard.serve();
    let ids = ["safe", "unsafe"]
        .map(|tool| post(&server, tool, &[], "{}").1["data"]["job_id"].as_str().unwrap().to_owned());
    eventually("both run", TIMEOUT, || runs(&yard) == 2);
    assert_eq!(server.stop(), 0);
    yard.file("go", "");
    let server = yard.serve();
    assert_eq!(job(&server, &ids[0], "?wait_ms=30000")["state"], "complete");
    assert_eq!(job(&server, &ids[1], "?wait_ms=30000")["state"], "cancelled");
}

#[test]
fn a_tools_concurrency_holds_for_its_jobs_and_none_is_refused() {
    let yard = Yard::new();
    let script = "cat >/dev/null; echo + >>data/log; sleep 0.05; echo - >>data/log; echo '{\"data\":{}}'";
    let extra = json!({"timing": "async_long", "concurrency": 2, "sandbox": {"fs": {"write": ["data"]}}});
    shell(&yard, "narrow", script, extra);
    let server = yard.serve();
    for _ in 0..20 {
        assert_eq!(post(&server, "narrow", &[], "{}").0, 202);
    }
    eventually("all are over", TIMEOUT, || {
        server.get("/v1/jobs?state=complete").json()["jobs"].as_array().unwrap().len() == 20
    });
    let log = std::fs::read_to_string(yard.path("data/log")).unwrap();
    let mut running = 0;
    for mark in log.lines() {
        running += if mark == "+" { 1 } else { -1 };
        assert!((0..=2).contains(&running), "{log}");
    }
}

#[test]
fn the_command_line_follows_jobs_here_and_on_a_server() {
    let yard = Yard::new();
    shell(&yard, "slow", "sleep 0.3; echo '{\"data\":\"done\"}'", json!({"timing": "async_long"}));
    shell(&yard, "bad", "exit 1", json!({"timing": "async_long"}));
    let here = yard.run(&["call", "slow"]).expect(0);
    assert_eq!(here.stdout, "done\n");
    let server = yard.serve();
    let url = format!("http://{}", server.address);
    let there = |arguments: &[&str]| yard.run(&[&["--url", &url], arguments].concat());
    let listed = there(&["list"]).expect(0).stdout;
    assert!(listed.contains("slow") && listed.contains("bad"), "{listed}");
    let started = there(&["call", "slow", "--detach", "--json"]).expect(0).json();
    let id = started["data"]["job_id"].as_str().unwrap();
    assert_eq!(there(&["job", "wait", id]).expect(0).stdout, "done\n");
    assert!(there(&["job", "show", id]).expect(0).stdout.contains("complete"));
    assert!(there(&["job", "watch", id]).expect(0).stdout.contains("complete"));
    let failed = there(&["call", "bad", "--detach", "--json"]).expect(0).json();
    there(&["job", "wait", failed["data"]["job_id"].as_str().unwrap()]).expect(1);
    let all = there(&["job", "list", "--json", "--limit", "2"]).expect(0).json();
    assert_eq!(all["jobs"].as_array().unwrap().len(), 2);
    let older = there(&["job", "list", "--json", "--before", all["next"].as_str().unwrap()]).expect(0).json();
    assert_eq!(older["jobs"].as_array().unwrap().len(), 1);
    let missing = there(&["job", "show", "01a1e1c8-9afe-7a29-b01d-f175b396abd4"]).expect(4);
    assert!(missing.stderr.contains("there is no job"), "{missing:?}");
    let nowhere = yard.run(&["--url", "http://127.0.0.1:1", "list"]).expect(9);
    assert!(nowhere.stderr.contains("cannot be reached"), "{nowhere:?}");
}

#[test]
fn ctrl_c_stops_a_job_of_the_command_line() {
    let (yard, mark) = (Yard::new(), marker());
    shell(&yard, "long", &format!("sleep 1000; : {mark}"), json!({"timing": "async_long"}));
    let mut command = yard.command();
    command.args(["call", "long"]);
    let running = crate::support::Running::start(command);
    eventually("it runs", TIMEOUT, || !processes_with(&mark).is_empty());
    signal(running.child.id(), libc::SIGINT);
    assert_eq!(running.finish(TIMEOUT).code, 130);
    assert_no_survivor(&mark, Duration::from_secs(1));
    let list = yard.run(&["job", "list", "--json"]).expect(0).json();
    assert_eq!(list["jobs"][0]["state"], "cancelled");
}

#[test]
fn events_report_every_change_after_a_cursor() {
    let yard = Yard::new();
    shell(&yard, "slow", "echo '{\"data\":{}}'", json!({"timing": "async_short"}));
    let server = yard.serve();
    let start = server.get("/v1/events").json();
    let (_, done) = post(&server, "slow", &[], "{}");
    let id = done["meta"]["job_id"].as_str().unwrap();
    let page = server.get(&format!("/v1/events?after={}&subject={id}", start["cursor"])).json();
    let states: Vec<&str> = page["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["data"]["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["running", "complete"], "{page}");
    for bad in ["after=x", "limit=2000", "nothing=1", "after=999999999"] {
        let answer = server.get(&format!("/v1/events?{bad}"));
        assert_eq!(answer.status, 400, "{bad}: {}", answer.json());
    }
}

#[test]
fn batches_run_what_is_independent_at_once_and_hand_results_on() {
    let yard = Yard::new();
    let upper = "tr a-z A-Z | sed 's/.*\"TEXT\":\"\\([^\"]*\\)\".*/{\"data\":{\"text\":\"\\1\"}}/'";
    shell(&yard, "upper", upper, json!({}));
    shell(&yard, "nap", "cat >/dev/null; sleep 0.4; echo '{\"data\":{}}'", json!({}));
    shell(&yard, "bad", "exit 1", json!({}));
    let batch = json!({"calls": [
        {"id": "a", "tool": "upper", "arguments": {"text": "abc"}},
        {"id": "b", "tool": "upper", "arguments": {"text": {"$from": "a", "pointer": "/text"}}},
        {"id": "c", "tool": "bad"},
        {"id": "d", "tool": "upper", "arguments": {"text": "x"}, "depends": ["c"]},
    ]});
    yard.file("batch.json", batch.to_string());
    let server = yard.serve();
    let url = format!("http://{}", server.address);
    for arguments in
        [&["batch", "batch.json", "--json"][..], &["--url", &url, "batch", "batch.json", "--json"]]
    {
        let answer = yard.run(arguments).expect(1).json();
        assert_eq!(answer["status"], "partial_success");
        let outcome = |i: usize| &answer["results"][i]["outcome"];
        assert_eq!(
            (&outcome(0)["data"]["text"], &outcome(1)["data"]["text"]),
            (&json!("ABC"), &json!("ABC")),
            "{answer}"
        );
        assert_eq!(outcome(2)["status"], "failure");
        assert!(
            outcome(3)["error"]["message"].as_str().unwrap().contains("'c', which it needs, failed"),
            "{answer}"
        );
    }
    let naps: Vec<Value> = (0..8).map(|i| json!({"id": i.to_string(), "tool": "nap"})).collect();
    let started = std::time::Instant::now();
    let answer =
        server.client().send("POST", "/v1/batch", &[], json!({"calls": naps}).to_string().as_bytes());
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("success")));
    // One after the other they would take 3.2 s.
    assert!(started.elapsed() < Duration::from_millis(2400), "{:?}", started.elapsed());
    let before = yard.records().len();
    for (bad, what) in [
        (json!({"calls": [{"id": "a", "tool": "upper", "arguments": {"text": {"$from": "a"}}}]}), "cycle"),
        (
            json!({"calls": [{"id": "a", "tool": "upper", "arguments": {"text": {"$from": "z"}}}]}),
            "depends on the unknown call 'z'",
        ),
        (json!({"calls": [{"id": "a", "tool": "nap"}, {"id": "b", "tool": "nothing"}]}), "nothing was run"),
    ] {
        let answer = server.client().send("POST", "/v1/batch", &[], bad.to_string().as_bytes());
        assert!(matches!(answer.status, 400 | 404), "{}", answer.json());
        let message = answer.json()["error"]["error_message"].as_str().unwrap().to_owned();
        assert!(message.contains(what), "{message}");
    }
    assert_eq!(yard.records().len(), before, "a refused batch ran something");
}

#[test]
fn jobs_are_on_the_audit_record_from_their_start_to_their_end() {
    let yard = Yard::new();
    shell(&yard, "slow", "echo '{\"data\":{}}'", json!({"timing": "async_long"}));
    let server = yard.serve();
    let (_, started) = post(&server, "slow", &[], "{}");
    let id = started["data"]["job_id"].as_str().unwrap();
    job(&server, id, "?wait_ms=30000");
    assert_eq!(server.stop(), 0);
    let of_job: Vec<Value> = yard
        .records()
        .into_iter()
        .filter(|record| record["call"] == id)
        .map(|record| record["kind"].clone())
        .collect();
    assert_eq!(of_job, [json!("begin"), json!("end")]);
}
