//! Tests of `job.*` and `event.*`.

use crate::fixture::{Fixture, MAX_EVENTS};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolyard_protocol::{Call, ErrorKind, NoopCaller};

const UNKNOWN: &str = "01923456-789a-7fff-bfff-ffffffffffff";

#[tokio::test]
async fn a_job_is_visible_from_its_start_to_its_result() {
    let fixture = Fixture::new();
    let id = fixture.start("local", "job.sleep", json!({"milliseconds": 300})).await;
    let before = fixture.ok("job.status", json!({"job_id": id})).await;
    assert_eq!((&before["status"], &before["source"]), (&json!("running"), &json!("job.sleep")));
    assert!(before.get("result").is_none() && before.get("completed_at").is_none(), "{before}");
    let polled = fixture.ok("job.poll", json!({"job_ids": [id], "timeout_ms": 5000})).await;
    assert_eq!((&polled["completed"], &polled["reason"]), (&json!([id]), &json!("job_complete")));
    // Woken by the event, not by polling.
    let elapsed = polled["elapsed_ms"].as_u64().unwrap();
    assert!((200..700).contains(&elapsed), "{elapsed} ms for a job of 300 ms");
    let after = fixture.ok("job.status", json!({"job_id": id})).await;
    assert_eq!((&after["status"], &after["result"]), (&json!("complete"), &json!({"slept_ms": 300})));
    let listed = fixture.ok("job.list", json!({})).await;
    assert_eq!((&listed["total"], &listed["by_status"]["complete"]), (&json!(1), &json!(1)));
    assert_eq!(listed["by_status"].as_object().unwrap().len(), 7);
}

#[tokio::test]
async fn a_failed_job_has_its_error() {
    let fixture = Fixture::new();
    let id =
        fixture.start("local", "cas.upload_file", json!({"file_path": "nothing", "mime_type": "a/b"})).await;
    let polled = fixture.ok("job.poll", json!({"job_ids": [id], "mode": "all"})).await;
    assert_eq!((&polled["failed"], &polled["completed"]), (&json!([id]), &json!([])));
    let status = fixture.ok("job.status", json!({"job_id": id})).await;
    let error = &status["error"];
    assert_eq!((&error["kind"], &error["category"]), (&json!("resource_not_found"), &json!("not_found")));
}

#[tokio::test]
async fn polls_wait_for_any_or_all_and_report_unknown_ids() {
    let fixture = Fixture::new();
    let short = fixture.start("local", "job.sleep", json!({"milliseconds": 10})).await;
    let long = fixture.start("local", "job.sleep", json!({"milliseconds": 20_000})).await;
    let polled = fixture.ok("job.poll", json!({"job_ids": [short, long, UNKNOWN]})).await;
    assert_eq!(polled["completed"], json!([short]));
    assert_eq!((&polled["pending"], &polled["unknown"]), (&json!([long]), &json!([UNKNOWN])));
    assert_eq!((&polled["timed_out"], &polled["failed"]), (&json!(false), &json!([])));
    let started = Instant::now();
    let polled =
        fixture.ok("job.poll", json!({"job_ids": [short, long], "mode": "all", "timeout_ms": 150})).await;
    assert!(started.elapsed() >= Duration::from_millis(150));
    assert_eq!(
        (&polled["timed_out"], &polled["reason"], &polled["pending"]),
        (&json!(true), &json!("timeout"), &json!([long]))
    );
    let polled = fixture.ok("job.poll", json!({"job_ids": [UNKNOWN]})).await;
    assert_eq!((&polled["reason"], &polled["timed_out"]), (&json!("nothing_pending"), &json!(false)));
    for (wrong, pointer) in [
        (json!({"job_ids": []}), "/job_ids"),
        (json!({"job_ids": vec![UNKNOWN; 101]}), "/job_ids"),
        (json!({"job_ids": ["x"]}), "/job_ids/0"),
        (json!({"job_ids": [UNKNOWN], "timeout_ms": 30_001}), "/timeout_ms"),
        (json!({"job_ids": [UNKNOWN], "mode": "some"}), "/mode"),
    ] {
        let error = fixture.err("job.poll", wrong).await;
        assert_eq!(
            (error.kind, error.details.violations[0].pointer.as_str()),
            (ErrorKind::InvalidInput, pointer)
        );
    }
    // A caller whose deadline is before the timeout still gets a response.
    let call = fixture.call("job.poll", &json!({"job_ids": [long], "timeout_ms": 30_000}));
    let call = Call { deadline: Some(Instant::now() + Duration::from_millis(400)), ..call };
    let outcome = fixture.engine.run(call, &NoopCaller).await;
    let polled: Value = serde_json::from_slice(outcome.data().unwrap().bytes()).unwrap();
    assert_eq!(polled["reason"], "timeout");
}

#[tokio::test]
async fn a_cancelled_job_stops() {
    let fixture = Fixture::new();
    let id = fixture.start("local", "job.sleep", json!({"milliseconds": 30_000})).await;
    let cancelled = fixture.ok("job.cancel", json!({"job_id": id})).await;
    assert_eq!(cancelled, json!({"job_id": id, "status": "cancelled", "cancelled": true}));
    let polled = fixture.ok("job.poll", json!({"job_ids": [id]})).await;
    assert_eq!((&polled["cancelled"], &polled["failed"]), (&json!([id]), &json!([])));
    // A finished job is not changed, and an unknown one is not found.
    let done = fixture.start("local", "job.sleep", json!({"milliseconds": 0})).await;
    fixture.ok("job.poll", json!({"job_ids": [done]})).await;
    let late = fixture.ok("job.cancel", json!({"job_id": done})).await;
    assert_eq!(late, json!({"job_id": done, "status": "complete", "cancelled": false}));
    assert_eq!(fixture.err("job.cancel", json!({"job_id": UNKNOWN})).await.kind, ErrorKind::ResourceNotFound);
}

#[tokio::test]
async fn callers_see_only_their_own_jobs_and_the_owner_sees_all() {
    let fixture = Fixture::new();
    let cursor = fixture.ok("event.poll", json!({"timeout_ms": 0})).await["cursor"].clone();
    let id = fixture.start("alice", "job.sleep", json!({"milliseconds": 50})).await;
    for tool in ["job.status", "job.cancel"] {
        assert_eq!(
            fixture.err_as("bob", tool, json!({"job_id": id})).await.kind,
            ErrorKind::ResourceNotFound,
            "{tool}"
        );
    }
    assert_eq!(fixture.ok_as("bob", "job.list", json!({})).await["total"], 0);
    assert_eq!(fixture.ok("job.list", json!({})).await["total"], 1);
    assert_eq!(fixture.ok_as("bob", "job.poll", json!({"job_ids": [id]})).await["unknown"], json!([id]));
    let own = fixture.ok_as("alice", "job.poll", json!({"job_ids": [id]})).await;
    assert_eq!(own["completed"], json!([id]));
    let seen = |page: &Value| {
        page["events"].as_array().unwrap().iter().filter(|e| e["subject"] == id.as_str()).count()
    };
    let others = fixture.ok_as("bob", "event.poll", json!({"cursor": cursor, "timeout_ms": 0})).await;
    assert_eq!(seen(&others), 0, "{others}");
    let own = fixture.ok_as("alice", "event.poll", json!({"cursor": cursor, "timeout_ms": 0})).await;
    assert!(seen(&own) >= 2, "{own}");
    let all = fixture.ok("event.poll", json!({"cursor": cursor, "timeout_ms": 0})).await;
    assert_eq!(seen(&all), seen(&own), "the owner of the yard sees the jobs of all callers");
    // The cursor also advances past omitted events.
    assert_eq!(others["cursor"], own["cursor"]);
}

#[tokio::test]
async fn jobs_are_listed_by_state_and_page_by_page() {
    let fixture = Fixture::new();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(fixture.start("local", "job.sleep", json!({"milliseconds": 0})).await);
        // Ids are ordered by milliseconds.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    fixture.ok("job.poll", json!({"job_ids": ids, "mode": "all"})).await;
    let page = fixture.ok("job.list", json!({"limit": 2, "status": "complete"})).await;
    let listed = |page: &Value| -> Vec<String> {
        page["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["job_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!((listed(&page), &page["total"]), (vec![ids[2].clone(), ids[1].clone()], &json!(3)));
    let rest = fixture.ok("job.list", json!({"before": ids[1]})).await;
    assert_eq!(listed(&rest), [ids[0].clone()]);
    assert_eq!(listed(&fixture.ok("job.list", json!({"status": "failed"})).await), Vec::<String>::new());
    let error = fixture.err("job.list", json!({"status": "completed"})).await;
    assert!(error.details.violations[0].message.ends_with("did you mean 'complete'?"), "{error:?}");
}

#[tokio::test]
async fn events_are_awaited_and_read_from_the_cursor() {
    let fixture = Fixture::new();
    let cursor = fixture.ok("event.poll", json!({"timeout_ms": 0})).await["cursor"].as_u64().unwrap();
    let waits = fixture.ok("event.poll", json!({"cursor": cursor, "timeout_ms": 5000}));
    let happens = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        fixture.start("local", "job.sleep", json!({"milliseconds": 0})).await
    };
    let started = Instant::now();
    let (page, id) = tokio::join!(waits, happens);
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    let event = &page["events"][0];
    assert_eq!(
        (&event["event_type"], &event["subject"], &event["data"]["job_id"]),
        (&json!("job_state_changed"), &json!(id), &json!(id))
    );
    assert_eq!(event["seq"], cursor + 1);
    fixture.ok("job.poll", json!({"job_ids": [id]})).await;
    // Reading one at a time from the same cursor returns the same events, without duplicates.
    let all = fixture.ok("event.poll", json!({"cursor": cursor, "timeout_ms": 0})).await;
    let (mut at, mut one_by_one) = (cursor, Vec::new());
    loop {
        let page = fixture.ok("event.poll", json!({"cursor": at, "timeout_ms": 0, "limit": 1})).await;
        one_by_one.extend(page["events"].as_array().unwrap().clone());
        at = page["cursor"].as_u64().unwrap();
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(all["events"], Value::from(one_by_one));
    let recent = fixture
        .ok("event.poll", json!({"since_ms": 60_000, "types": ["job_state_changed"], "timeout_ms": 0}))
        .await;
    assert_eq!(recent["events"], all["events"]);
    assert_eq!(
        fixture.ok("event.poll", json!({"since_ms": 60_000, "types": ["other"], "timeout_ms": 0})).await["events"],
        json!([])
    );
}

#[tokio::test]
async fn invalid_cursors_have_the_error_codes_of_hoot01() {
    let fixture = Fixture::new();
    let error = fixture.err("event.poll", json!({"cursor": 99_999, "timeout_ms": 0})).await;
    assert_eq!(
        (error.kind, error.details.tool_code.as_deref()),
        (ErrorKind::InvalidInput, Some("invalid_cursor"))
    );
    for _ in 0..MAX_EVENTS {
        let id = fixture.start("local", "job.sleep", json!({"milliseconds": 0})).await;
        fixture.ok("job.poll", json!({"job_ids": [id]})).await;
    }
    let error = fixture.err("event.poll", json!({"cursor": 1, "timeout_ms": 0})).await;
    assert_eq!(
        (error.kind, error.details.tool_code.as_deref()),
        (ErrorKind::InvalidInput, Some("cursor_expired"))
    );
    let details: Value = serde_json::from_slice(error.details.tool_details.unwrap().bytes()).unwrap();
    // Reading continues from the reported cursor.
    let page = fixture.ok("event.poll", json!({"cursor": details["oldest_cursor"], "timeout_ms": 0})).await;
    let buffer = &page["buffer"];
    assert_eq!(page["events"][0]["seq"], buffer["oldest"]);
    assert_eq!(
        buffer["total"].as_u64().unwrap(),
        buffer["newest"].as_u64().unwrap() + 1 - buffer["oldest"].as_u64().unwrap()
    );
    for (wrong, pointer) in [
        (json!({"timeout_ms": 30_001}), "/timeout_ms"),
        (json!({"limit": 1001}), "/limit"),
        (json!({"types": [""]}), "/types/0"),
        (json!({"cursor": 1, "since_ms": 1}), "/since_ms"),
        (json!({"cursor": -1}), "/cursor"),
    ] {
        assert_eq!(fixture.err("event.poll", wrong).await.details.violations[0].pointer, pointer);
    }
}

#[tokio::test]
async fn a_msgpack_result_is_returned_as_json() {
    let fixture = Fixture::new();
    fixture.packed("job.sleep", &json!({"milliseconds": 2})).await;
    let id = fixture.ok("job.list", json!({})).await["jobs"][0]["job_id"].clone();
    assert_eq!(fixture.ok("job.status", json!({"job_id": id})).await["result"], json!({"slept_ms": 2}));
}
