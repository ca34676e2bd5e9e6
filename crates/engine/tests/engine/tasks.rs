//! Jobs as a client follows them by id: their state, their questions, their changes.

use crate::scripted::{Setup, Step, World, setup, until};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_engine::TaskChanges;
use toolyard_engine::clock::{SystemClock, SystemRandom, new_id};
use toolyard_engine::stores::{EventStore, NewEvent};
use toolyard_protocol::{ErrorKind, Identity, JobState, Payload, Timestamp, Timing};
use toolyard_store::suite::memory;

fn local() -> Identity {
    Identity::local()
}

#[tokio::test]
async fn a_task_shows_its_questions_while_it_runs_and_its_outcome_afterwards() {
    let world = setup(Timing::AsyncLong).build(|_| vec![Step::Ask("name")]);
    let (tasks, me) = (world.tasks(), local());
    let id = world.start("{}").await;
    world.reach(id, JobState::InputRequired).await;
    let task = tasks.get(id, &me).await.unwrap().unwrap();
    assert_eq!((task.questions[0].key.as_str(), task.outcome, task.ttl), ("name", None, None));
    assert_eq!(task.poll_interval, Duration::from_millis(500));
    let answers = || vec![("other".to_owned(), Payload::json("0")), ("name".to_owned(), Payload::json("1"))];
    assert!(tasks.answer(id, &me, answers()).await.unwrap());
    world.over(id).await;
    let task = tasks.get(id, &me).await.unwrap().unwrap();
    assert_eq!((task.job.state, task.questions.len()), (JobState::Complete, 0));
    assert_eq!(task.outcome.unwrap().data().unwrap().bytes(), &b"[1]"[..]);
    assert_eq!(task.ttl, Some(Duration::from_secs(24 * 3600)), "kept for a later fetch");
    assert!(tasks.cancel(id, &me).await.unwrap(), "it exists");
    assert_eq!(world.job(id).await.state, JobState::Complete, "a finished job is unchanged");
}

#[tokio::test]
async fn a_task_that_is_unknown_or_another_callers_is_not_found() {
    let world = setup(Timing::AsyncLong).build(|_| vec![Step::Ask("name")]);
    let tasks = world.tasks();
    let id = world.start("{}").await;
    world.reach(id, JobState::InputRequired).await;
    for (id, identity) in [(id, Identity::new("stranger")), (new_id(&SystemClock, &SystemRandom), local())] {
        assert!(tasks.get(id, &identity).await.unwrap().is_none());
        assert!(!tasks.cancel(id, &identity).await.unwrap());
        let answers = vec![("name".to_owned(), Payload::json("1"))];
        assert!(!tasks.answer(id, &identity, answers).await.unwrap());
    }
    assert_eq!((world.job(id).await.state, world.jobs().questions(id).len()), (JobState::InputRequired, 1));
    assert!(tasks.cancel(id, &local()).await.unwrap());
    assert_eq!(world.job(id).await.state, JobState::Cancelled);
}

#[tokio::test]
async fn a_store_that_fails_is_an_error_and_not_a_missing_task() {
    let world = setup(Timing::AsyncLong).build(|_| Vec::new());
    let id = world.start("{}").await;
    world.store.is_broken.store(true, Ordering::SeqCst);
    let (tasks, me) = (world.tasks(), local());
    let errors = [
        tasks.get(id, &me).await.unwrap_err(),
        tasks.cancel(id, &me).await.unwrap_err(),
        tasks.answer(id, &me, Vec::new()).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::Unavailable, "the store cannot be used: it is damaged")
        );
    }
}

async fn log_lines(world: &World, count: usize) {
    for _ in 0..count {
        let (kind, subject) = ("log".to_owned(), Some(new_id(&SystemClock, &SystemRandom).to_string()));
        let event = NewEvent { at: Timestamp::from_unix_ms(1), kind, subject, data: Payload::json("{}") };
        memory::Events(world.memory.clone()).append(vec![event]).await.unwrap();
    }
}

async fn changes(world: &World, after: Option<u64>) -> TaskChanges {
    world.tasks().wait_for_changes(after).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn changes_are_returned_from_a_cursor_on_and_without_one_at_once() {
    let world = setup(Timing::AsyncLong).build(|_| Vec::new());
    let earlier = world.start("{}").await;
    until(async || world.job(earlier).await.state.is_finished()).await;
    let began = Instant::now();
    let first = changes(&world, None).await;
    assert_eq!((first.jobs, began.elapsed()), (Some(Vec::new()), Duration::ZERO));
    // Log lines are no changes of a task.
    log_lines(&world, 2).await;
    let job = world.start("{}").await;
    until(async || world.job(job).await.state.is_finished()).await;
    let second = changes(&world, Some(first.cursor)).await;
    assert_eq!(second.jobs, Some(vec![job]), "once, though its state changed twice");
    assert_eq!((second.cursor, began.elapsed()), (first.cursor + 4, Duration::ZERO));
    // Nothing happens: the wait ends after some seconds.
    let third = changes(&world, Some(second.cursor)).await;
    assert_eq!(third, TaskChanges { cursor: second.cursor, jobs: Some(Vec::new()) });
    assert!(began.elapsed().abs_diff(Duration::from_secs(20)) < Duration::from_millis(20));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_first_change_even_when_the_events_before_it_have_expired() {
    let world = Setup { ring: 4, ..setup(Timing::AsyncLong) }.build(|_| vec![Step::Hang]);
    world.jobs();
    log_lines(&world, 1).await;
    let cursor = changes(&world, None).await.cursor;
    log_lines(&world, 4).await;
    let (seen, job) = tokio::join!(changes(&world, Some(cursor)), async {
        let job = world.start("{}").await;
        log_lines(&world, 2).await;
        job
    });
    assert_eq!(seen, TaskChanges { cursor: cursor + 7, jobs: Some(vec![job]) });
}

#[tokio::test]
async fn after_an_expired_cursor_any_task_may_have_changed() {
    let world = Setup { ring: 4, ..setup(Timing::AsyncLong) }.build(|_| Vec::new());
    log_lines(&world, 9).await;
    assert_eq!(changes(&world, Some(1)).await, TaskChanges { cursor: 9, jobs: None });
    assert_eq!(changes(&world, Some(99)).await, TaskChanges { cursor: 9, jobs: None }, "of an older log");
}
