//! Jobs: their rows, questions, updates, limits and retention.

use crate::scripted::{Setup, Step, detached, keyed, listener, received, returns, setup, until};
use crate::{FakeClock, TempDir, call};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use toolyard_engine::clock::Clock;
use toolyard_engine::jobs::{Options, SteadyClock};
use toolyard_engine::stores::{EventQuery, JobFilter, JobStore};
use toolyard_protocol::{
    Call, Error, ErrorKind, Identity, InputResponse, JobState, Outcome, Payload, Status, Timing, Wait,
};

#[tokio::test]
async fn a_secret_in_the_arguments_is_not_stored_and_the_job_is_not_repeated() {
    let world = setup(Timing::AsyncLong).build(|_| vec![Step::Hang]);
    let id = world.start(r#"{"password":"hush"}"#).await;
    let job = world.job(id).await;
    assert_eq!(&job.arguments.bytes()[..], br#"{"password":"[x]"}"#);
    assert!(!job.repeatable && job.state == JobState::Running);
    let plain = world.start("{}").await;
    assert!(world.job(plain).await.repeatable);
    world.jobs().shut_down().await;
}

#[tokio::test]
async fn a_question_stays_open_until_it_is_answered() {
    let world = setup(Timing::AsyncLong).build(|_| vec![Step::Ask("name"), Step::Ask("age")]);
    let id = world.start("{}").await;
    for (key, answer) in [("name", "\"Ada\""), ("age", "36")] {
        until(async || !world.jobs().questions(id).is_empty()).await;
        assert_eq!(world.jobs().questions(id)[0].key, key);
        assert_eq!(world.job(id).await.state, JobState::InputRequired);
        assert!(!world.jobs().answer(id, "other", InputResponse(Payload::json("0"))));
        assert!(world.jobs().answer(id, key, InputResponse(Payload::json(answer))));
    }
    let job = world.over(id).await;
    assert_eq!(job.state, JobState::Complete);
    assert_eq!(&job.outcome.unwrap().bytes()[..], br#"success|["Ada",36]"#);
}

#[tokio::test]
async fn a_waiting_caller_gets_all_updates_and_questions() {
    let world = setup(Timing::AsyncShort)
        .build(|_| vec![Step::Progress(10.0), Step::Log("working"), Step::Ask("sure"), Step::Progress(90.0)]);
    let (caller, mut updates) = listener();
    let outcome = world.engine.run(call("{}"), &caller).await;
    assert_eq!(&outcome.data().unwrap().bytes()[..], b"[true]");
    assert_eq!(outcome.meta.job.map(|(_, state)| state), Some(JobState::Complete));
    assert_eq!(received(&mut updates), ["progress 10", "log \"working\"", "asked sure", "progress 90"]);
}

#[tokio::test]
async fn a_caller_that_waits_until_the_detach_is_asked_before_it_and_not_after() {
    let script = || vec![Step::Ask("sure"), Step::Detach, Step::Ask("later")];
    let world = setup(Timing::AsyncLong).build(move |_| script());
    let (caller, mut updates) = listener();
    let outcome = world.engine.run(Call { wait: Wait::UntilDetached, ..call("{}") }, &caller).await;
    let (id, state) = outcome.meta.job.unwrap();
    assert!(!state.is_finished(), "{state:?}");
    assert_eq!(updates.try_recv().unwrap(), "asked sure");
    until(async || !world.jobs().questions(id).is_empty()).await;
    assert!(updates.try_recv().is_err(), "asked after the detach");
    assert!(world.jobs().answer(id, "later", InputResponse(Payload::json("2"))));
    assert_eq!(&world.over(id).await.outcome.unwrap().bytes()[..], b"success|[true,2]");
    // A caller that waits until the end is asked every question.
    let (caller, mut updates) = listener();
    let outcome = world.engine.run(Call { wait: Wait::UntilDone, ..call("{}") }, &caller).await;
    assert_eq!(&outcome.data().unwrap().bytes()[..], b"[true,true]");
    assert_eq!([updates.try_recv().unwrap(), updates.try_recv().unwrap()], ["asked sure", "asked later"]);
}

#[tokio::test]
async fn a_waiting_caller_pays_for_one_synced_change_and_a_later_fetch_for_two() {
    for (timing, expected) in [(Timing::AsyncShort, 1), (Timing::AsyncMedium, 1), (Timing::AsyncLong, 2)] {
        let world = setup(timing).build(|_| Vec::new());
        let outcome = world.run(call("{}")).await;
        world.over(outcome.meta.job.unwrap().0).await;
        assert_eq!(world.store.synced.load(Ordering::SeqCst), expected, "{timing:?}");
    }
}

#[tokio::test]
async fn too_many_open_jobs_of_one_caller_are_refused_and_others_queue() {
    let options = Options { max_open_of_caller: 3, max_running: 1, ..Options::default() };
    let world = Setup { options, ..setup(Timing::AsyncLong) }.build(|_| vec![Step::Hang]);
    let ids = [world.start("{}").await, world.start("{}").await, world.start("{}").await];
    let refused = world.run(detached("{}")).await;
    assert_eq!(refused.error().unwrap().kind, ErrorKind::Busy);
    let state = async |id| world.job(id).await.state;
    assert_eq!((state(ids[0]).await, state(ids[1]).await), (JobState::Running, JobState::Pending));
    assert_eq!(world.jobs().cancel(ids[0], &Identity::local()).await.unwrap(), JobState::Cancelled);
    world.reach(ids[1], JobState::Running).await;
    assert_eq!(world.jobs().cancel(ids[2], &Identity::local()).await.unwrap(), JobState::Cancelled);
    world.jobs().shut_down().await;
}

#[tokio::test]
async fn another_callers_job_is_not_found() {
    let world = setup(Timing::AsyncLong).build(|_| Vec::new());
    let id = world.start("{}").await;
    let stranger = Identity::new("stranger");
    assert_eq!(world.jobs().get(id, &stranger).await.unwrap_err().kind, ErrorKind::ResourceNotFound);
    assert_eq!(world.jobs().cancel(id, &stranger).await.unwrap_err().kind, ErrorKind::ResourceNotFound);
}

#[tokio::test]
async fn jobs_are_removed_when_they_expire_and_not_before() {
    let world = setup(Timing::AsyncShort).build(|_| Vec::new());
    let outcome = world.run(call("{}")).await;
    let id = outcome.meta.job.unwrap().0;
    let keep = Options::default().keep_short.as_millis() as u64;
    for (later, exists) in [(keep - 1, true), (2, false)] {
        world.clock.0.fetch_add(later, Ordering::SeqCst);
        world.jobs().remove_expired().await.unwrap();
        assert_eq!(world.jobs().get(id, &Identity::local()).await.is_ok(), exists);
    }
}

#[test]
fn the_steady_clock_does_not_follow_jumps_of_the_wall_clock() {
    let folder = TempDir::new();
    let at = |ms: u64| FakeClock::at(ms) as Arc<dyn Clock>;
    let day = 24 * 60 * 60 * 1000;
    let first = SteadyClock::open(folder.path(), &at(10 * day));
    for jumped in [11 * day, 9 * day, 10 * day] {
        let later = SteadyClock::open(folder.path(), &at(jumped));
        let apart = later.now().unix_ms().abs_diff(first.now().unix_ms());
        assert!(apart < 10_000, "{apart} ms apart after a jump to {jumped}");
    }
    // Another boot of the machine starts anew.
    std::fs::write(folder.path().join("steady-clock"), "another-boot 5 5\n").unwrap();
    assert!(SteadyClock::open(folder.path(), &at(20 * day)).now().unix_ms() >= 20 * day);
}

#[tokio::test]
async fn a_job_with_a_secret_that_has_to_wait_runs_in_its_turn() {
    let options = Options { max_running: 1, ..Options::default() };
    let script = |arguments: &str| if arguments.contains("hush") { Vec::new() } else { vec![Step::Hang] };
    let world = Setup { options, ..setup(Timing::AsyncLong) }.build(script);
    let (first, second) = (world.start("{}").await, world.start(r#"{"a":"hush"}"#).await);
    until(async || world.runs() == 1).await;
    world.jobs().cancel(first, &Identity::local()).await.unwrap();
    assert_eq!(world.over(second).await.state, JobState::Complete);
}

#[tokio::test]
async fn the_state_of_a_finished_job_follows_from_its_outcome() {
    let error = |kind| Error::new(kind, "the tool failed");
    let partial =
        Outcome::new(Status::PartialSuccess, Some(Payload::json("1")), Some(error(ErrorKind::ToolFailed)));
    let cases = [
        (Outcome::success(None), JobState::Complete),
        (Outcome::failure(error(ErrorKind::ToolFailed)), JobState::Failed),
        (Outcome::failure(error(ErrorKind::Cancelled)), JobState::Cancelled),
        (partial.unwrap(), JobState::Complete),
    ];
    for (given, expected) in cases {
        let returned = given.clone();
        let world = setup(Timing::AsyncShort).build(move |_| returns(&returned));
        let outcome = world.run(call("{}")).await;
        // As the tool returned it, not as it is stored.
        let message = |outcome: &Outcome| outcome.error().map(|error| error.message.clone());
        assert_eq!((outcome.status(), message(&outcome)), (given.status(), message(&given)));
        let (id, state) = outcome.meta.job.unwrap();
        assert_eq!((state, world.job(id).await.state), (expected, expected), "{given:?}");
    }
}

#[tokio::test]
async fn a_second_call_with_the_key_of_a_running_job_gets_its_updates_too() {
    let world = setup(Timing::AsyncShort).build(|_| vec![Step::Ask("go"), Step::Progress(50.0)]);
    let id = world.run(keyed(detached("{}"))).await.meta.job.unwrap().0;
    until(async || !world.jobs().questions(id).is_empty()).await;
    let (caller, mut updates) = listener();
    let outcome = world.engine.run(keyed(call("{}")), &caller).await;
    assert_eq!(outcome.meta.job, Some((id, JobState::Complete)));
    // It is asked what is still open, too: the caller before it may be gone.
    assert_eq!(
        (received(&mut updates), world.runs()),
        (vec!["asked go".into(), "progress 50".to_owned()], 1)
    );
}

#[tokio::test]
async fn a_job_may_have_64_questions_open_each_with_a_key_of_its_own() {
    let numbered = |count: usize| (0..count).map(|key| key.to_string()).collect::<Vec<_>>();
    let too_many = "the question '64' is already open, or 64 others are";
    let twice = "the question 'a' is already open, or 64 others are";
    let cases =
        [(numbered(64), None), (numbered(65), Some(too_many)), (vec!["a".into(), "a".into()], Some(twice))];
    for (keys, expected) in cases {
        let world = setup(Timing::AsyncShort).build(move |_| vec![Step::AskAll(keys.clone())]);
        let outcome = world.engine.run(call("{}"), &listener().0).await;
        assert_eq!(outcome.error().map(|error| error.message.as_str()), expected);
        let hint = expected.map(|_| "give each question a key of its own");
        assert_eq!(outcome.error().and_then(|error| error.hint.as_deref()), hint);
    }
}

#[tokio::test]
async fn progress_is_written_at_most_four_times_a_second_and_log_lines_always() {
    let world = setup(Timing::AsyncShort).build(|_| {
        let pause = Step::Sleep(Duration::from_millis(260));
        vec![
            Step::Progress(1.0),
            Step::Progress(2.0),
            Step::Log("a"),
            Step::Log("b"),
            pause,
            Step::Progress(3.0),
        ]
    });
    let before = world.jobs().events().read(EventQuery::default()).await.unwrap().cursor;
    let (caller, mut updates) = listener();
    let id = world.engine.run(call("{}"), &caller).await.meta.job.unwrap().0;
    let listened = ["progress 1", "progress 2", "log \"a\"", "log \"b\"", "progress 3"];
    assert_eq!(received(&mut updates), listened);
    until(async || world.store.progress_written.lock().unwrap().len() == 2).await;
    assert_eq!(world.store.progress_written.lock().unwrap()[..], [1.0, 3.0]);
    let query =
        EventQuery { after: Some(before), kinds: vec!["log".into()], limit: 10, ..EventQuery::default() };
    let logged = world.jobs().events().read(query).await.unwrap().events;
    assert!(logged.iter().all(|event| event.subject.as_deref() == Some(id.to_string().as_str())));
    let expected = ["a", "b"].map(|text| {
        format!(r#"{{"job_id":"{id}","level":"info","source":"tool","message":"{text}"}}"#).into_bytes()
    });
    assert_eq!(logged.iter().map(|event| event.data.bytes().to_vec()).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_wait_ends_with_the_job_or_after_its_time() {
    let world = setup(Timing::AsyncLong).build(|arguments| match arguments {
        "{}" => Vec::new(),
        _ => vec![Step::Hang],
    });
    let (ended, running) = (world.start("{}").await, world.start(r#"{"a":1}"#).await);
    world.reach(ended, JobState::Complete).await;
    let began = Instant::now();
    let state = async |id, wait| world.jobs().wait(id, &Identity::local(), wait).await.unwrap().state;
    assert_eq!(state(ended, Duration::from_secs(60)).await, JobState::Complete);
    assert_eq!(state(running, Duration::ZERO).await, JobState::Running);
    assert!(began.elapsed() < Duration::from_secs(1), "it waited {:?}", began.elapsed());
    assert_eq!(state(running, Duration::from_millis(30)).await, JobState::Running);
    assert!(began.elapsed() >= Duration::from_millis(30), "it waited {:?}", began.elapsed());
    world.jobs().shut_down().await;
}

#[tokio::test]
async fn jobs_are_listed_newest_first() {
    let world = setup(Timing::AsyncLong).build(|_| Vec::new());
    let ids = [world.start("{}").await, world.start("{}").await];
    let listed = world.jobs().list(JobFilter { limit: 10, ..JobFilter::default() }).await.unwrap();
    let mut expected = ids;
    expected.sort_by(|a, b| b.cmp(a));
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), expected);
}

#[test]
fn completed_jobs_are_kept_as_long_as_their_callers_need_them_and_others_longer() {
    let options = Options::default();
    for timing in Timing::ALL {
        let fetched_later = matches!(timing, Timing::AsyncLong | Timing::FireAndForget);
        let expected = if fetched_later { options.keep_long } else { options.keep_short };
        assert_eq!(options.retention(timing, JobState::Complete), expected, "{timing:?}");
        for state in [JobState::Failed, JobState::Cancelled, JobState::Unknown] {
            assert_eq!(options.retention(timing, state), options.keep_failed, "{timing:?}, {state:?}");
        }
    }
}

#[tokio::test]
async fn any_number_of_expired_jobs_is_removed_at_once() {
    let world = setup(Timing::AsyncLong).build(|_| Vec::new());
    for _ in 0..501 {
        world.start("{}").await;
    }
    until(async || world.store.finish_tried.lock().unwrap().len() == 501).await;
    world.clock.0.fetch_add(Options::default().keep_long.as_millis() as u64, Ordering::SeqCst);
    world.jobs().remove_expired().await.unwrap();
    assert_eq!(world.store.count(None).await.unwrap(), []);
}

#[tokio::test]
async fn jobs_that_wait_for_an_answer_do_not_keep_others_from_running() {
    let options = Options { max_running: 2, max_running_of_caller: 2, ..Options::default() };
    let asking = Setup { options, ..setup(Timing::AsyncLong) };
    let script = |arguments: &str| if arguments == "{}" { Vec::new() } else { vec![Step::Ask("name")] };
    let world = asking.build(script);
    let waiting = [world.start("1").await, world.start("2").await, world.start("3").await];
    for id in waiting {
        world.reach(id, JobState::InputRequired).await;
    }
    let other = world.start("{}").await;
    assert_eq!(world.over(other).await.state, JobState::Complete);
    for id in waiting {
        assert!(world.jobs().answer(id, "name", InputResponse(Payload::json("1"))));
        assert_eq!(world.over(id).await.state, JobState::Complete);
    }
}

#[tokio::test]
async fn a_question_followed_by_many_log_lines_reaches_the_caller() {
    let script = |_: &str| vec![Step::AskAndLog("sure", 300), Step::Progress(90.0)];
    let world = setup(Timing::AsyncShort).build(script);
    let (caller, mut updates) = listener();
    let running = world.engine.run(call("{}"), &caller);
    let outcome = tokio::time::timeout(Duration::from_secs(5), running).await.unwrap();
    assert_eq!(&outcome.data().unwrap().bytes()[..], b"[true]");
    let asked = received(&mut updates).iter().filter(|update| *update == "asked sure").count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn a_tool_that_is_tried_again_may_ask_the_same_question_again() {
    let mut given = setup(Timing::AsyncLong);
    given.spec.behavior.retry = Some(toolyard_protocol::Retry { attempts: 2, backoff: Duration::ZERO });
    let runs = std::sync::atomic::AtomicUsize::new(0);
    let world = given.build(move |_| match runs.fetch_add(1, Ordering::SeqCst) {
        0 => vec![Step::Withdraw("name", None), Step::Fail(ErrorKind::ToolFailed)],
        _ => vec![Step::Ask("name")],
    });
    let id = world.start("{}").await;
    until(async || world.runs() == 2 && !world.jobs().questions(id).is_empty()).await;
    assert!(world.jobs().answer(id, "name", InputResponse(Payload::json("7"))));
    assert_eq!(&world.over(id).await.outcome.unwrap().bytes()[..], b"success|[7]");
}

#[tokio::test]
async fn a_tool_that_panics_fails_its_job_and_frees_what_it_held() {
    let mut given = setup(Timing::AsyncLong);
    given.spec.behavior.concurrency = Some(1);
    let script = |arguments: &str| if arguments == "{}" { vec![Step::Panic] } else { Vec::new() };
    let world = Setup { options: Options { max_running: 1, ..Options::default() }, ..given }.build(script);
    let job = world.over(world.start("{}").await).await;
    assert_eq!(job.state, JobState::Failed);
    let ended = world.audit.ended.lock().unwrap()[0].error().unwrap().clone();
    assert_eq!((ended.kind, ended.message.as_str()), (ErrorKind::Internal, "the call panicked: planned"));
    assert_eq!(world.over(world.start("[]").await).await.state, JobState::Complete);
}

#[tokio::test]
async fn a_job_that_outlived_its_wait_ends_on_disk() {
    let script = |_: &str| vec![Step::Detach, Step::Sleep(Duration::from_millis(50))];
    let world = setup(Timing::AsyncShort).build(script);
    let outcome = world.run(Call { wait: Wait::UntilDetached, ..call("{}") }).await;
    let (id, state) = outcome.meta.job.unwrap();
    assert!(!state.is_finished(), "{state:?}");
    let before = world.store.synced.load(Ordering::SeqCst);
    assert_eq!(world.over(id).await.state, JobState::Complete);
    assert_eq!(world.store.synced.load(Ordering::SeqCst), before + 1);
}

#[tokio::test]
async fn a_key_used_with_other_arguments_is_refused() {
    let world = setup(Timing::AsyncShort).build(|_| Vec::new());
    let first = world.run(keyed(call("{}"))).await;
    for same in ["{}", "{ }"] {
        assert_eq!(world.run(keyed(call(same))).await.meta.job, first.meta.job, "{same}");
    }
    let refused = world.run(keyed(call(r#"{"a":1}"#))).await;
    let error = refused.error().unwrap();
    assert_eq!((error.kind, refused.meta.job, world.runs()), (ErrorKind::IdempotencyConflict, None, 1));
    let id = first.meta.job.unwrap().0;
    let message = format!("the idempotency key was used before, with other arguments, by job '{id}'");
    assert_eq!(error.message, message);
}

#[tokio::test]
async fn the_progress_of_an_ended_job_is_its_last() {
    for (fails, expected) in [(false, 100.0), (true, 70.0)] {
        let end = if fails { Step::Fail(ErrorKind::ToolFailed) } else { Step::Log("done") };
        let steps =
            Arc::new(std::sync::Mutex::new(Some(vec![Step::Progress(10.0), Step::Progress(70.0), end])));
        let world =
            setup(Timing::AsyncShort).build(move |_| steps.lock().unwrap().take().unwrap_or_default());
        let id = world.run(call("{}")).await.meta.job.unwrap().0;
        assert_eq!(world.job(id).await.progress.unwrap().done, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lines_are_stored_in_their_order_before_the_end() {
    let lines: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let expected = lines.clone();
    let world = setup(Timing::AsyncShort).build(move |_| vec![Step::LogAll(lines.clone())]);
    let after = world.jobs().events().read(EventQuery::default()).await.unwrap().cursor;
    world.run(call("{}")).await;
    let query = EventQuery { after: Some(after), limit: 1000, ..EventQuery::default() };
    let events = world.jobs().events().read(query).await.unwrap().events;
    assert_eq!(events.last().unwrap().kind, "job_state_changed");
    let logged: Vec<String> = events
        .iter()
        .filter(|event| event.kind == "log")
        .map(|event| String::from_utf8(event.data.bytes().to_vec()).unwrap())
        .map(|text| text.rsplit('"').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(logged, expected);
}

#[tokio::test]
async fn log_lines_over_four_mebibytes_at_once_are_left_out_and_counted() {
    let call = call("{}");
    let line = |level: &str, text: &str| {
        format!(r#"{{"job_id":"{}","level":"{level}","source":"tool","message":"{text}"}}"#, call.id)
    };
    // Stored, four of them are as long as all that may wait.
    let long = "x".repeat((1 << 20) - line("info", "").len());
    let burst = [long.as_str(); 4].into_iter().chain(["too", "much"]).map(str::to_owned);
    let burst: Vec<String> = burst.collect();
    let world = setup(Timing::AsyncShort).build(move |_| {
        // The pause lets them be written.
        vec![Step::LogAll(burst.clone()), Step::Sleep(Duration::from_millis(5)), Step::Log("later")]
    });
    let after = world.jobs().events().read(EventQuery::default()).await.unwrap().cursor;
    let left_out = line("warning", "2 log lines were written too fast to be stored");
    let (long, later) = (line("info", &long), line("info", "later"));
    let expected = [&long, &long, &long, &long, &left_out, &later].map(String::as_bytes);
    world.run(call.clone()).await;
    let mut events = Vec::new();
    let (mut after, kinds) = (Some(after), vec!["log".to_owned()]);
    // Pages are shorter than what is read here.
    while let Some(cursor) = after {
        let query =
            EventQuery { after: Some(cursor), kinds: kinds.clone(), limit: 10, ..EventQuery::default() };
        let page = world.jobs().events().read(query).await.unwrap();
        after = page.has_more.then_some(page.cursor);
        events.extend(page.events);
    }
    // Without the long texts in the message of a failure.
    let sizes = |lines: &[&[u8]]| lines.iter().map(|line| line.len()).collect::<Vec<_>>();
    let stored: Vec<&[u8]> = events.iter().map(|event| &event.data.bytes()[..]).collect();
    assert_eq!(sizes(&stored), sizes(&expected));
    assert!(stored == expected);
}

#[tokio::test]
async fn a_limit_that_is_changed_counts_for_the_next_job() {
    let world = setup(Timing::AsyncLong).build(|_| vec![Step::Hang]);
    world.start("{}").await;
    world.options.replace(Options { max_open_of_caller: 1, ..Options::default() });
    let refused = world.run(detached("{}")).await;
    assert_eq!(refused.error().map(|error| error.kind), Some(ErrorKind::Busy));
    world.options.replace(Options { max_open_of_caller: 2, ..Options::default() });
    world.start("{}").await;
    world.jobs().shut_down().await;
}

#[tokio::test]
async fn events_about_another_callers_job_are_not_visible() {
    let world = setup(Timing::AsyncLong).build(|_| vec![Step::Log("mine"), Step::Progress(5.0)]);
    let after = world.jobs().events().read(EventQuery::default()).await.unwrap().cursor;
    let id = world.start("{}").await;
    world.over(id).await;
    let query = EventQuery { after: Some(after), limit: 100, ..EventQuery::default() };
    let events = world.jobs().events().read(query).await.unwrap().events;
    let kinds: std::collections::BTreeSet<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["job_state_changed", "log", "progress"]);
    let seen =
        async |identity: Identity| world.jobs().visible_events(events.clone(), &identity).await.unwrap();
    assert_eq!(seen(Identity::local()).await, events);
    assert_eq!(seen(Identity::new("stranger")).await, []);
}
