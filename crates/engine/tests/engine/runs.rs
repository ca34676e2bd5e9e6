//! Runs of a tool: deadlines, retries, shared runs, limits, and what is recorded when a disk is full.

use crate::call;
use crate::scripted::{Setup, Step, World, in_paused_time, keyed, returns, setup};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::{
    Call, Error, ErrorKind, Guarded, Identity, Outcome, Payload, Rate, Retry, RpcError, Timing, Wait,
};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Deadlines are real times, so on a busy machine they are off by the time that the test itself takes.
#[track_caller]
fn assert_about(actual: Duration, expected: Duration) {
    assert!(actual.abs_diff(expected) < 2 * SECOND, "{actual:?} instead of {expected:?}");
}

/// Times since the first, in milliseconds, without what the timer rounds up.
fn pauses(times: &[Instant]) -> Vec<u128> {
    times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis() / 10 * 10).collect()
}

fn starts(world: &World) -> Vec<Instant> {
    world.seen.lock().unwrap().iter().map(|seen| seen.at).collect()
}

fn with_retry(attempts: u32, backoff: Duration) -> Setup {
    let mut given = setup(Timing::Sync);
    given.spec.behavior.retry = Some(Retry { attempts, backoff });
    given
}

fn failed(kind: ErrorKind) -> Outcome {
    Outcome::failure(Error::new(kind, "the tool failed"))
}

#[tokio::test(start_paused = true)]
async fn a_failing_tool_runs_as_often_as_declared_with_pauses_that_double() {
    let world = with_retry(4, 100 * MS).build(|_| vec![Step::Fail(ErrorKind::ToolFailed)]);
    let outcome = world.run(call("{}")).await;
    assert_eq!(outcome.error().unwrap().message, "the tool failed");
    assert_eq!(pauses(&starts(&world)), [100, 200, 400]);
}

#[tokio::test(start_paused = true)]
async fn the_first_success_ends_the_retries_and_reports_their_number() {
    let runs = AtomicUsize::new(0);
    let world = with_retry(5, 100 * MS).build(move |_| match runs.fetch_add(1, Ordering::SeqCst) {
        0 => vec![Step::Fail(ErrorKind::Unavailable)],
        1 => returns(&failed(ErrorKind::ToolFailed)),
        _ => Vec::new(),
    });
    let outcome = world.run(call("{}")).await;
    assert_eq!((outcome.error(), outcome.meta.attempts, world.runs()), (None, 3, 3));
}

#[tokio::test(start_paused = true)]
async fn no_retry_begins_after_the_deadline() {
    let world = with_retry(5, 40 * SECOND).build(|_| returns(&failed(ErrorKind::ToolFailed)));
    // The second pause of 80 s would end after the timeout of 60 s.
    assert_eq!(world.run(call("{}")).await.meta.attempts, 2);
    assert_eq!(world.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn only_failures_that_another_run_may_avoid_are_repeated() {
    let chosen = Error::new(ErrorKind::ToolFailed, "no").with(|details| {
        details.rpc = Some(RpcError { code: 1, message: "no".into(), data: None });
    });
    let cases = [
        (failed(ErrorKind::ToolFailed), 2),
        (failed(ErrorKind::InvalidOutput), 2),
        (failed(ErrorKind::Unavailable), 2),
        (failed(ErrorKind::Timeout), 1),
        (failed(ErrorKind::InvalidInput), 1),
        (failed(ErrorKind::Cancelled), 1),
        (Outcome::failure(chosen), 1),
        (Outcome::success(None), 1),
    ];
    for (outcome, expected) in cases {
        let given = outcome.clone();
        let world = with_retry(2, MS).build(move |_| returns(&given));
        let attempts = world.run(call("{}")).await.meta.attempts;
        assert_eq!((attempts, world.runs()), (expected, expected as usize), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_has_the_earlier_of_the_tools_and_the_callers_deadline() {
    let world = setup(Timing::Sync).build(|_| Vec::new());
    for (asked, expected) in [(None, 60), (Some(5), 5), (Some(90), 60)] {
        let deadline = asked.map(|seconds| std::time::Instant::now() + seconds * SECOND);
        world.run(Call { deadline, ..call("{}") }).await;
        assert_about(world.seen.lock().unwrap().pop().unwrap().time_left, expected * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_may_end_up_to_five_seconds_after_its_deadline() {
    let world = setup(Timing::Sync).build(|_| vec![Step::Sleep(64 * SECOND)]);
    assert_eq!(world.run(call("{}")).await.error(), None);
}

#[test]
fn a_run_that_does_not_stop_is_abandoned() {
    // Waiting for answers extends the tool's deadline, but not the caller's.
    for (dialog, asked, expected) in
        [(false, None, 60 + 5), (true, None, 60 + 600 + 5), (true, Some(100), 100 + 5)]
    {
        in_paused_time(async {
            let mut given = setup(Timing::Sync);
            given.spec.behavior.dialog = dialog;
            let world = given.build(|_| vec![Step::Hang]);
            let deadline = asked.map(|seconds| std::time::Instant::now() + seconds * SECOND);
            let began = Instant::now();
            let outcome = world.run(Call { deadline, ..call("{}") }).await;
            let error = outcome.error().unwrap();
            assert_eq!(error.kind, ErrorKind::Timeout);
            assert_eq!(error.message, "'echo' did not stop at its deadline and was abandoned");
            assert_about(began.elapsed(), expected * SECOND);
        });
    }
}

fn cached() -> Setup {
    Setup { is_cached: true, ..setup(Timing::Sync) }
}

#[tokio::test(start_paused = true)]
async fn a_shared_run_has_the_tools_deadline_and_each_caller_its_own() {
    let world = cached().build(|_| vec![Step::Sleep(30 * SECOND)]);
    let deadline = Some(std::time::Instant::now() + 10 * SECOND);
    let began = Instant::now();
    let (hurried, patient) = tokio::join!(world.run(Call { deadline, ..call("{}") }), world.run(call("{}")));
    let error = hurried.error().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Timeout, "'echo' did not finish in time"));
    assert_eq!(&patient.data().unwrap().bytes()[..], b"[]");
    assert_about(began.elapsed(), 30 * SECOND);
    assert_about(world.seen.lock().unwrap()[0].time_left, 60 * SECOND);
    assert_eq!(world.runs(), 1);
    assert!(world.run(call("{}")).await.meta.cached);
}

#[tokio::test]
async fn failures_are_not_cached() {
    let world = cached().build(|_| vec![Step::Fail(ErrorKind::ToolFailed)]);
    for runs in [1, 2] {
        assert_eq!(world.run(call("{}")).await.error().unwrap().kind, ErrorKind::ToolFailed);
        assert_eq!(world.runs(), runs);
    }
}

fn one_at_a_time(timing: Timing) -> Setup {
    let mut given = setup(timing);
    given.spec.behavior.concurrency = Some(1);
    given
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_one_before_it_until_its_own_deadline() {
    let world = one_at_a_time(Timing::Sync).build(|_| vec![Step::Sleep(20 * SECOND)]);
    let deadline = Some(std::time::Instant::now() + 5 * SECOND);
    let (first, hurried, second) = tokio::join!(
        world.run(call("{}")),
        world.run(Call { deadline, ..call("{}") }),
        world.run(call("{}")),
    );
    assert_eq!((first.error(), second.error()), (None, None));
    assert_eq!((pauses(&starts(&world)), world.runs()), (vec![20_000], 2));
    let refused = hurried.error().unwrap();
    assert_eq!(
        (refused.kind, refused.message.as_str()),
        (ErrorKind::Busy, "the tool's concurrency limit is reached")
    );
    let hint = "the call waited until its deadline; raise 'concurrency' or 'timeoutMs'";
    assert_eq!(refused.hint.as_deref(), Some(hint));
}

#[tokio::test(start_paused = true)]
async fn jobs_of_a_tool_run_one_after_the_other_within_its_concurrency_limit() {
    let world = one_at_a_time(Timing::AsyncLong).build(|_| vec![Step::Sleep(10 * SECOND)]);
    let jobs = [world.start("{}").await, world.start("{}").await, world.start("{}").await];
    tokio::time::sleep(31 * SECOND).await;
    for id in jobs {
        assert_eq!(world.job(id).await.outcome.unwrap().bytes(), &b"success|[]"[..]);
    }
    assert_eq!(pauses(&starts(&world)), [10_000, 10_000]);
}

#[tokio::test]
async fn a_guarded_tool_runs_for_the_owner_only() {
    let reasons = [
        (Guarded::Declared, "is declared 'guarded'"),
        (Guarded::Unconfined, "runs outside the sandbox"),
        (Guarded::Secrets, "gets secrets"),
        (Guarded::WritesFiles, "changes files of the yard's owner"),
        (Guarded::ReadsFiles, "reads files of the yard's owner"),
        (Guarded::Artifacts, "uses artifacts of the yard's owner"),
    ];
    let anonymous = || Call { identity: Identity::anonymous(), ..call("{}") };
    for (guarded, why) in reasons {
        let mut given = setup(Timing::Sync);
        given.spec.behavior.guarded = Some(guarded);
        let world = given.build(|_| Vec::new());
        let refused = world.run(anonymous()).await;
        let error = refused.error().unwrap();
        let message = format!("'echo' {why}, so its callers need the yard's token");
        assert_eq!((error.kind, &error.message), (ErrorKind::Forbidden, &message));
        let hint = "send the header 'Authorization: Bearer TOKEN'; 'toolyard token' prints the token";
        assert_eq!(error.hint.as_deref(), Some(hint));
        assert_eq!((world.runs(), world.audit.refused.lock().unwrap().len()), (0, 1));
        assert_eq!((world.run(call("{}")).await.error(), world.runs()), (None, 1));
    }
    let unguarded = setup(Timing::Sync).build(|_| Vec::new());
    assert_eq!((unguarded.run(anonymous()).await.error(), unguarded.runs()), (None, 1));
}

#[tokio::test]
async fn calls_over_the_rate_are_refused_with_the_time_to_wait() {
    let mut given = setup(Timing::Sync);
    given.spec.behavior.rate = Some(Rate { calls: 2, per: SECOND });
    let world = given.build(|_| Vec::new());
    for _ in 0..2 {
        assert_eq!(world.run(call("{}")).await.error(), None);
    }
    let error = world.run(call("{}")).await.error().unwrap().clone();
    assert_eq!(error.kind, ErrorKind::RateLimited);
    assert_eq!(error.message, "the tool's rate limit of 2 calls per 1000 ms is exceeded");
    assert_eq!(error.hint.as_deref(), Some("try again in 500 ms"));
    assert_eq!(error.details.retry_after, Some(500 * MS));
    assert_eq!(world.runs(), 2);
    assert_eq!(world.audit.refused.lock().unwrap()[..], [error]);
    world.clock.0.fetch_add(500, Ordering::SeqCst);
    assert_eq!(world.run(call("{}")).await.error(), None);
}

#[tokio::test]
async fn arguments_may_be_as_long_as_the_limit() {
    let raise = "send less, or raise 'limits.input' in the tool's file";
    for (kind, limit, hint) in
        [("process", 7, None), ("process", 6, Some(raise)), ("builtin", 6, Some("send less"))]
    {
        let mut given = setup(Timing::Sync);
        (given.spec.kind, given.spec.limits.input) = (kind, limit);
        let world = given.build(|_| Vec::new());
        let outcome = world.run(call(r#"{"a":1}"#)).await;
        assert_eq!(outcome.error().and_then(|error| error.hint.as_deref()), hint);
        if let Some(error) = outcome.error() {
            assert_eq!(error.kind, ErrorKind::InputTooLarge);
            assert_eq!(error.message, "the arguments have 7 bytes; 'echo' takes at most 6");
        }
        assert_eq!(world.runs(), usize::from(hint.is_none()));
    }
}

#[tokio::test]
async fn a_failure_names_its_call_to_the_caller_and_in_the_record() {
    let world = setup(Timing::Sync).build(|_| vec![Step::Fail(ErrorKind::ToolFailed)]);
    let call = call("{}");
    let id = Some(call.id);
    let outcome = world.run(call).await;
    for outcome in [&outcome, &world.audit.ended.lock().unwrap()[0]] {
        assert_eq!((outcome.meta.call_id, outcome.error().unwrap().correlation_id), (id, id));
    }
}

#[tokio::test]
async fn the_tool_gets_a_secret_and_neither_the_record_nor_the_caller_does() {
    for timing in [Timing::Sync, Timing::AsyncShort] {
        let result = Outcome::success(Some(Payload::json(r#""hush""#)));
        let world = setup(timing).build(move |_| returns(&result));
        let outcome = world.run(call(r#"{"a":"hush"}"#)).await;
        assert_eq!(outcome.data().unwrap().bytes(), &br#""[x]""#[..]);
        let arguments = |call: &Call| call.arguments.bytes().to_vec();
        assert_eq!(arguments(&world.seen.lock().unwrap()[0].call), br#"{"a":"hush"}"#);
        assert_eq!(arguments(&world.audit.begun.lock().unwrap()[0]), br#"{"a":"[x]"}"#);
        assert_eq!(world.audit.ended.lock().unwrap()[0].data().unwrap().bytes(), &br#""[x]""#[..]);
    }
}

#[tokio::test]
async fn a_call_that_cannot_be_recorded_does_not_run() {
    for timing in [Timing::Sync, Timing::AsyncShort] {
        let world = setup(timing).build(|_| Vec::new());
        world.audit.full_for.store(1, Ordering::SeqCst);
        let error = world.run(call("{}")).await.error().unwrap().clone();
        assert_eq!((error.message.as_str(), world.runs()), ("the audit log is full", 0));
        assert_eq!(world.run(call("{}")).await.error(), None);
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_recorded_is_returned_only_from_the_row_of_its_own_job() {
    let own = || call("{}");
    let by_key = || Call { wait: Wait::UntilDone, ..keyed(call("{}")) };
    let world = setup(Timing::Sync).build(|_| Vec::new());
    assert_eq!(world.run(by_key()).await.error(), None);
    world.audit.full_at_end.store(true, Ordering::SeqCst);
    // A direct call, and one that gets the result of the earlier job.
    for refused in [own(), by_key()] {
        let outcome = world.run(refused).await;
        assert_eq!(outcome.error().unwrap().message, "the audit log is full");
        assert!(outcome.data().is_none());
    }
    let world = setup(Timing::AsyncShort).build(|_| Vec::new());
    world.audit.full_at_end.store(true, Ordering::SeqCst);
    assert_eq!(&world.run(own()).await.data().unwrap().bytes()[..], b"[]");
}
