//! What becomes of jobs when their process stops, dies or finds the disk full.

use crate::call;
use crate::scripted::{Setup, Step, World, in_paused_time, keyed, listener, received, setup, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use toolyard_engine::clock::{SystemClock, SystemRandom, new_id};
use toolyard_engine::jobs::Options;
use toolyard_engine::stores::{JobFilter, JobStore, NewJob};
use toolyard_protocol::{
    Annotations, Call, Edge, ErrorKind, Id, Identity, JobState, NoopCaller, Payload, Timestamp, Timing,
    TraceContext, Wait,
};
use toolyard_store::suite::memory;

fn not_repeatable(options: Options) -> Setup {
    let mut given = Setup { options, ..setup(Timing::AsyncLong) };
    given.spec.annotations = Annotations::default();
    given
}

fn announcing() -> Setup {
    Setup { announces_start: true, ..not_repeatable(Options::default()) }
}

/// The row of a job whose process died before it started.
fn orphan() -> NewJob {
    NewJob {
        id: new_id(&SystemClock, &SystemRandom),
        tool: "example.echo".into(),
        arguments: Payload::json("{}"),
        identity: Identity::local(),
        timing: Timing::AsyncLong,
        repeatable: true,
        state: JobState::Pending,
        now: Timestamp::from_unix_ms(1),
        owner: new_id(&SystemClock, &SystemRandom),
        ttl: Duration::from_secs(3600),
        key: None,
        trace: None,
        max_open: 10,
        max_open_of_caller: 10,
    }
}

async fn recover(world: &World, row: NewJob) -> Id {
    let id = row.id;
    memory::Jobs(world.memory.clone()).create(row).await.unwrap();
    world.jobs().spawn_maintenance(&world.engine);
    id
}

#[tokio::test]
async fn a_repeatable_job_is_left_at_a_shutdown_and_runs_again_in_the_next_process() {
    let runs = AtomicUsize::new(0);
    let first_hangs = move |_: &str| match runs.fetch_add(1, Ordering::SeqCst) {
        0 => vec![Step::Hang],
        _ => Vec::new(),
    };
    let mut world = setup(Timing::AsyncLong).build(first_hangs);
    let id = world.start("{}").await;
    until(async || world.runs() == 1).await;
    world.jobs().shut_down().await;
    assert_eq!((world.job(id).await.state, world.job(id).await.outcome), (JobState::Pending, None));
    // The old process is gone with its service.
    world.engine = world.another_process();
    world.jobs().spawn_maintenance(&world.engine);
    let job = world.over(id).await;
    assert_eq!((job.state, job.attempt, world.runs()), (JobState::Complete, 2, 2));
}

#[tokio::test]
async fn at_a_shutdown_other_jobs_end_as_cancelled_once_they_have_started() {
    let world = not_repeatable(Options { max_running: 1, ..Options::default() }).build(|_| vec![Step::Hang]);
    let running = Call { wait: Wait::UntilDone, ..call("{}") };
    let started = running.id;
    let (outcome, queued) = tokio::join!(world.run(running), async {
        until(async || world.runs() == 1).await;
        let mut queued = Vec::new();
        // Many, because the stopped one frees its permit, and any of them may be the next to see it.
        for _ in 0..30 {
            queued.push(world.start("{}").await);
        }
        world.jobs().shut_down().await;
        queued
    });
    let error = outcome.error().unwrap();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    let message = "the server was stopped while the job ran; the tool's whole process tree was killed";
    assert_eq!(error.message, message);
    assert_eq!(world.job(started).await.state, JobState::Cancelled);
    for id in queued {
        assert_eq!(
            world.job(id).await.state,
            JobState::Pending,
            "never started, so left to the next process"
        );
    }
}

#[tokio::test]
async fn after_a_shutdown_no_job_starts() {
    let world = setup(Timing::AsyncShort).build(|_| Vec::new());
    world.jobs().shut_down().await;
    let outcome = world.run(call("{}")).await;
    let error = outcome.error().unwrap();
    let message = "the server was stopped before the job ran";
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Cancelled, message));
    assert_eq!(outcome.meta.job, None);
    let all = JobFilter { limit: 10, ..JobFilter::default() };
    assert_eq!((world.jobs().list(all).await.unwrap(), world.runs()), (Vec::new(), 0));
}

#[tokio::test]
async fn a_job_is_stopped_when_another_process_requests_it() {
    let options = Options { maintenance_interval: Duration::from_millis(5), ..Options::default() };
    let world = Setup { options, ..setup(Timing::AsyncLong) }.build(|_| vec![Step::Hang]);
    world.jobs().spawn_maintenance(&world.engine);
    let (id, other) = (world.start("{}").await, world.start("{}").await);
    until(async || world.runs() == 2).await;
    memory::Jobs(world.memory.clone()).cancel(id, Timestamp::from_unix_ms(2)).await.unwrap();
    world.reach(id, JobState::Cancelled).await;
    assert_eq!(world.job(other).await.state, JobState::Running);
}

#[tokio::test]
async fn the_maintenance_ends_with_the_service() {
    let options = Options { maintenance_interval: Duration::from_millis(5), ..Options::default() };
    let world = Setup { options, ..setup(Timing::AsyncLong) }.build(|_| Vec::new());
    world.jobs().spawn_maintenance(&world.engine);
    let workers = || std::fs::read_dir(world.folder.path().join("workers")).unwrap().count();
    assert_eq!(workers(), 1);
    drop(world.engine);
    until(async || workers() == 0).await;
}

#[tokio::test]
async fn a_recovered_job_is_the_call_that_was_submitted() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let world = setup(Timing::AsyncLong).build(|_| Vec::new());
    let row = NewJob {
        identity: Identity::new("ada"),
        key: Some("k".into()),
        trace: Some(trace.into()),
        arguments: Payload::json(r#"{"a":1}"#),
        ..orphan()
    };
    let id = recover(&world, row).await;
    until(async || world.audit.ended.lock().unwrap().len() == 1).await;
    let begun = world.audit.begun.lock().unwrap();
    let seen = world.seen.lock().unwrap();
    for call in [&begun[0], &seen[0].call] {
        assert_eq!((call.id, call.edge, call.identity.as_str()), (id, Edge::Job, "ada"));
        assert_eq!(call.idempotency_key.as_deref(), Some("k"));
        assert_eq!(call.trace, TraceContext::parse(trace));
        assert_eq!((call.tool.as_str(), &call.arguments.bytes()[..]), ("example.echo", &br#"{"a":1}"#[..]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_recovered_job_waits_until_it_can_be_recorded() {
    let world = setup(Timing::AsyncLong).build(|_| Vec::new());
    world.audit.full_for.store(3, Ordering::SeqCst);
    let id = recover(&world, orphan()).await;
    let began = Instant::now();
    world.reach(id, JobState::Pending).await;
    tokio::time::sleep(Duration::from_millis(590)).await;
    assert_eq!((world.job(id).await.state, world.runs()), (JobState::Pending, 0), "{:?}", began.elapsed());
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!((world.job(id).await.state, world.runs()), (JobState::Complete, 1));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_finds_the_disk_full_is_written_when_there_is_room() {
    let world = setup(Timing::AsyncLong).build(|_| Vec::new());
    world.store.full_for.store(9, Ordering::SeqCst);
    let id = world.start("{}").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.job(id).await.state, JobState::Complete);
    let tried = world.store.finish_tried.lock().unwrap();
    let pauses = tried.windows(2).map(|pair| (pair[1] - pair[0]).as_millis() / 10 * 10);
    assert_eq!(pauses.collect::<Vec<_>>(), [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
}

#[tokio::test(start_paused = true)]
async fn a_queued_job_that_finds_the_disk_full_starts_when_there_is_room() {
    let options = Options { max_running: 1, ..Options::default() };
    let script = |_: &str| vec![Step::Sleep(Duration::from_secs(1))];
    let world = Setup { options, ..setup(Timing::AsyncLong) }.build(script);
    let (first, second) = (world.start("{}").await, world.start("{}").await);
    tokio::time::sleep(Duration::from_millis(500)).await;
    // At 1000 ms both find it full, at 1050 ms the end of the first; at 1150 and 1200 ms there is room.
    world.store.full_for.store(3, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(680)).await;
    let states = async || (world.job(first).await.state, world.job(second).await.state);
    assert_eq!((states().await, world.runs()), ((JobState::Complete, JobState::Pending), 1));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!((states().await, world.runs()), ((JobState::Complete, JobState::Running), 2));
}

#[tokio::test]
async fn a_queued_job_that_another_process_took_over_does_not_run_here() {
    let options = Options { max_running: 1, ..Options::default() };
    let world = Setup { options, ..setup(Timing::AsyncLong) }.build(|_| vec![Step::Hang]);
    let (first, second) = (world.start("{}").await, world.start("{}").await);
    until(async || world.runs() == 1).await;
    let rows = memory::Jobs(world.memory.clone());
    let (owner, other) = (rows.owners().await.unwrap()[0], new_id(&SystemClock, &SystemRandom));
    assert_eq!(rows.take_over(owner, other, Timestamp::from_unix_ms(2), 10).await.unwrap().len(), 2);
    assert_eq!(world.jobs().cancel(first, &Identity::local()).await.unwrap(), JobState::Cancelled);
    until(async || world.audit.ended.lock().unwrap().len() == 2).await;
    let messages: Vec<String> = world
        .audit
        .ended
        .lock()
        .unwrap()
        .iter()
        .map(|ended| ended.error().unwrap().message.clone())
        .collect();
    assert_eq!(messages, ["the job was cancelled", "another process took over the job"]);
    assert_eq!((world.job(second).await.state, world.runs()), (JobState::Pending, 1));
}

#[tokio::test]
async fn the_outcome_of_a_job_without_a_result_says_why_there_is_none() {
    let world = setup(Timing::AsyncLong).build(|_| vec![Step::Hang]);
    let id = recover(&world, NewJob { repeatable: false, state: JobState::Running, ..orphan() }).await;
    world.reach(id, JobState::Unknown).await;
    let job = world.job(id).await;
    let outcome = world.jobs().outcome_of(&job).unwrap();
    let message = "the process that ran the job died; how far the job got is unknown";
    assert_eq!(outcome.error().unwrap().message, message);
    assert_eq!(outcome.meta.job, Some((id, JobState::Unknown)));
    let with = |state| toolyard_protocol::Job { state, ..job.clone() };
    let cancelled = world.jobs().outcome_of(&with(JobState::Cancelled)).unwrap();
    assert_eq!(cancelled.error().unwrap().message, "the job was cancelled");
    let started = world.jobs().outcome_of(&with(JobState::Running)).unwrap();
    let data = format!(r#"{{"job_id":"{id}","tool":"example.echo","timing":"async_long"}}"#);
    assert_eq!(started.data().unwrap().bytes(), data.as_bytes());
    // A result was written, and its row is gone by now.
    let lost = world.jobs().outcome_of(&with(JobState::Complete)).unwrap_err();
    assert_eq!((lost.kind, lost.message), (ErrorKind::ResourceNotFound, format!("there is no job '{id}'")));
}

#[test]
fn a_caller_listens_for_twice_the_timeout_of_a_slow_tool() {
    let minutes = |n: u64| Duration::from_secs(n * 60);
    for (timing, wait) in [(Timing::AsyncLong, Wait::UntilDone), (Timing::Sync, Wait::AsDeclared)] {
        in_paused_time(async {
            let mut given = setup(timing);
            given.spec.limits.timeout = minutes(120);
            let world = given.build(move |_| vec![Step::Sleep(minutes(90)), Step::Progress(99.0)]);
            let (caller, mut updates) = listener();
            let call = Call { wait, ..keyed(call("{}")) };
            assert_eq!(world.engine.run(call, &caller).await.error(), None);
            assert_eq!(received(&mut updates), ["progress 99"]);
        });
    }
}

#[tokio::test]
async fn jobs_need_a_writable_state_folder() {
    let world = setup(Timing::AsyncShort).build(|_| Vec::new());
    std::fs::write(world.folder.path().join("workers"), "").unwrap();
    let outcome = world.engine.run(call("{}"), &NoopCaller).await;
    let error = outcome.error().unwrap();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.starts_with("cannot use the worker file"), "{}", error.message);
    let hint = "make the state folder writable, or set [state] dir in toolyard.toml";
    assert_eq!(error.hint.as_deref(), Some(hint));
    assert_eq!(world.audit.refused.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_job_whose_processes_keep_dying_fails_with_the_times() {
    let options = Options { max_attempts: 3, ..Options::default() };
    let world = Setup { options, ..setup(Timing::AsyncLong) }.build(|_| vec![Step::Hang]);
    let rows = memory::Jobs(world.memory.clone());
    let row = NewJob { state: JobState::Running, ..orphan() };
    let id = row.id;
    let mut owner = row.owner;
    rows.create(row).await.unwrap();
    for death in 1..3 {
        let next = new_id(&SystemClock, &SystemRandom);
        let taken = rows.take_over(owner, next, Timestamp::from_unix_ms(death * 1000), 1).await.unwrap();
        let toolyard_engine::stores::Recovered::Requeued(lease, _) = taken[0] else { panic!("{taken:?}") };
        rows.start(lease, Timestamp::from_unix_ms(5), toolyard_engine::stores::Durability::Written)
            .await
            .unwrap();
        owner = next;
    }
    world.jobs().spawn_maintenance(&world.engine);
    let job = world.over(id).await;
    assert_eq!((job.state, job.attempt, world.runs()), (JobState::Failed, 3, 0));
    let error = world.audit.ended.lock().unwrap()[0].error().unwrap().clone();
    let message = "the job is not started again: the process that ran it died 3 times, noticed at \
        1970-01-01T00:00:01.000Z, 1970-01-01T00:00:02.000Z, 1970-01-01T00:16:40.000Z";
    assert_eq!(error.message, message);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_full_disk() {
    for repeatable in [true, false] {
        let mut given = setup(Timing::AsyncLong);
        given.spec.annotations = Annotations { idempotent: Some(repeatable), ..Annotations::default() };
        let world = given.build(|_| vec![Step::Hang]);
        let id = world.start("{}").await;
        until(async || world.runs() == 1).await;
        world.store.full_for.store(u64::MAX, Ordering::SeqCst);
        let began = Instant::now();
        world.jobs().shut_down().await;
        assert!(began.elapsed() < Duration::from_secs(6), "it took {:?}", began.elapsed());
        assert_eq!(world.job(id).await.state, JobState::Running, "the next process decides");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_stops_the_work_even_when_the_disk_is_full() {
    let world = setup(Timing::AsyncLong).build(|_| vec![Step::Hang]);
    let id = world.start("{}").await;
    until(async || world.runs() == 1).await;
    world.store.full_for.store(8, Ordering::SeqCst);
    let error = world.jobs().cancel(id, &Identity::local()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    let message = "the job was stopped, but its end cannot be stored yet: the disk is full";
    assert_eq!((error.message.as_str(), world.audit.ended.lock().unwrap().len()), (message, 1));
    let job = world.over(id).await;
    assert_eq!(job.state, JobState::Cancelled, "once there is room");
}

#[test]
fn a_cancel_waits_until_the_work_has_stopped_and_two_seconds_for_its_row() {
    let seconds = Duration::from_secs;
    // Running: the cancel is applied when the store gets to it.
    let cases = [(3, 0, 3, JobState::Cancelled), (0, 10, 2, JobState::Running)];
    for (record_takes, row_takes, waited, state) in cases {
        in_paused_time(async {
            let world = setup(Timing::AsyncLong).build(|_| vec![Step::Hang]);
            let id = world.start("{}").await;
            until(async || world.runs() == 1).await;
            *world.audit.end_takes.lock().unwrap() = seconds(record_takes);
            *world.store.finish_takes.lock().unwrap() = seconds(row_takes);
            let began = Instant::now();
            assert_eq!(world.jobs().cancel(id, &Identity::local()).await.unwrap(), state);
            assert!(began.elapsed().abs_diff(seconds(waited)) < Duration::from_millis(20));
            tokio::time::sleep(seconds(10)).await;
            assert_eq!(world.job(id).await.state, JobState::Cancelled);
        });
    }
}

#[tokio::test]
async fn a_cancel_that_finds_the_disk_full_says_that_the_job_was_stopped_only_if_it_ran_here() {
    let world = setup(Timing::AsyncLong).build(|_| Vec::new());
    let ended = world.start("{}").await;
    world.reach(ended, JobState::Complete).await;
    let row = orphan();
    let elsewhere = row.id;
    memory::Jobs(world.memory.clone()).create(row).await.unwrap();
    for (id, state) in [(ended, JobState::Complete), (elsewhere, JobState::Cancelled)] {
        world.store.full_for.store(1, Ordering::SeqCst);
        let error = world.jobs().cancel(id, &Identity::local()).await.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Unavailable, "the disk is full"));
        assert_eq!(world.jobs().cancel(id, &Identity::local()).await.unwrap(), state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeatable_job_is_given_back_when_the_disk_is_full_for_a_moment_only() {
    let world = setup(Timing::AsyncLong).build(|_| vec![Step::Hang]);
    let id = world.start("{}").await;
    until(async || world.runs() == 1).await;
    world.store.full_for.store(2, Ordering::SeqCst);
    world.jobs().shut_down().await;
    assert_eq!(world.job(id).await.state, JobState::Pending);
}

#[test]
fn a_shutdown_does_not_wait_for_a_job_whose_task_is_gone() {
    let world = setup(Timing::AsyncLong).build(|_| vec![Step::Hang]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let id = runtime.block_on(async {
        let id = world.start("{}").await;
        until(async || world.runs() == 1).await;
        id
    });
    drop(runtime);
    in_paused_time(async {
        let began = Instant::now();
        world.jobs().shut_down().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(world.job(id).await.state, JobState::Running, "the next process decides");
    });
}

#[tokio::test]
async fn a_stop_before_the_tool_runs_leaves_the_job_to_the_next_process() {
    let mut world = not_repeatable(Options::default()).build(|_| Vec::new());
    // The row is marked as running before the tool runs, and the stop comes in between.
    world.store.stop_after_create.lock().unwrap().replace(world.jobs().clone());
    let id = world.start("{}").await;
    until(async || world.job(id).await.state == JobState::Pending).await;
    assert_eq!((world.job(id).await.attempt, world.runs()), (0, 0));
    world.store.stop_after_create.lock().unwrap().take();
    world.engine = world.another_process();
    world.jobs().spawn_maintenance(&world.engine);
    let job = world.over(id).await;
    assert_eq!((job.state, job.attempt, world.runs()), (JobState::Complete, 1, 1));
}

/// The tool waits for its turn to start, and the server is stopped before or after that.
#[tokio::test]
async fn a_stop_before_the_process_starts_leaves_the_job_to_the_next_process() {
    for (starts_first, state, runs) in [(false, JobState::Complete, 2), (true, JobState::Cancelled, 1)] {
        let waits = Arc::new(AtomicBool::new(true));
        let script_waits = waits.clone();
        let mut world = announcing().build(move |_| {
            let wait = if script_waits.load(Ordering::SeqCst) { Step::Hang } else { Step::Log("on") };
            if starts_first { vec![Step::Begin, wait] } else { vec![wait, Step::Begin] }
        });
        let id = world.start("{}").await;
        until(async || world.runs() == 1).await;
        world.jobs().shut_down().await;
        waits.store(false, Ordering::SeqCst);
        world.engine = world.another_process();
        world.jobs().spawn_maintenance(&world.engine);
        let job = world.over(id).await;
        assert_eq!((job.state, job.attempt, world.runs()), (state, 1, runs));
    }
}
