//! The permit and the row of a job while its tool waits for answers, and callers that stop waiting for the job.

use crate::call;
use crate::scripted::{Setup, Step, World, setup, until};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use toolyard_engine::jobs::Options;
use toolyard_protocol::{Call, Id, Identity, InputResponse, JobState, Payload, Timing, Wait};

/// Jobs run one at a time.
fn one_at_a_time(script: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> World {
    let options = Options { max_running: 1, ..Options::default() };
    Setup { options, ..setup(Timing::AsyncLong) }.build(script)
}

fn answer(world: &World, id: Id, key: &str) {
    assert!(world.jobs().answer(id, key, InputResponse(Payload::json("1"))));
}

async fn cancel(world: &World, id: Id) {
    assert_eq!(world.jobs().cancel(id, &Identity::local()).await.unwrap(), JobState::Cancelled);
}

/// Time in which everything happens that can.
async fn a_second() {
    sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_again_when_its_last_question_is_answered() {
    let ask = || vec![Step::AskAll(vec!["a".into(), "b".into()]), Step::Hang];
    let world = setup(Timing::AsyncLong).build(move |_| ask());
    let id = world.start("{}").await;
    for (key, state) in [("a", JobState::InputRequired), ("b", JobState::Running)] {
        world.reach(id, JobState::InputRequired).await;
        answer(&world, id, key);
        a_second().await;
        assert_eq!(world.job(id).await.state, state, "after '{key}'");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answered_job_goes_on_in_its_turn() {
    let world = one_at_a_time(|arguments| match arguments {
        "{}" => vec![Step::Ask("name")],
        _ => vec![Step::Hang],
    });
    let asking = world.start("{}").await;
    world.reach(asking, JobState::InputRequired).await;
    let other = world.start("[]").await;
    until(async || world.runs() == 2).await;
    answer(&world, asking, "name");
    a_second().await;
    assert_eq!(world.job(asking).await.state, JobState::InputRequired, "the other one runs");
    cancel(&world, other).await;
    world.reach(asking, JobState::Complete).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_keeps_its_permit_while_it_waits_goes_on_with_it() {
    let world = one_at_a_time(|arguments| match arguments {
        "{}" => vec![Step::Ask("name")],
        _ => Vec::new(),
    });
    let mut last = None;
    // Four jobs give up their permit; the fifth does not.
    for _ in 0..5 {
        let id = *last.insert(world.start("{}").await);
        world.reach(id, JobState::InputRequired).await;
    }
    let other = world.start("[]").await;
    a_second().await;
    assert_eq!((world.job(other).await.state, world.runs()), (JobState::Pending, 5));
    let last = last.unwrap();
    answer(&world, last, "name");
    world.reach(last, JobState::Complete).await;
    world.reach(other, JobState::Complete).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_withdraws_its_question_runs_and_takes_its_permit_back() {
    let world = one_at_a_time(|arguments| match arguments {
        "{}" => vec![Step::Withdraw("name", None), Step::Hang],
        _ => Vec::new(),
    });
    let asking = world.start("{}").await;
    world.reach(asking, JobState::InputRequired).await;
    a_second().await;
    assert_eq!(
        (world.job(asking).await.state, world.jobs().questions(asking)),
        (JobState::Running, Vec::new())
    );
    let other = world.start("[]").await;
    a_second().await;
    assert_eq!((world.job(other).await.state, world.runs()), (JobState::Pending, 1));
    cancel(&world, asking).await;
    world.reach(other, JobState::Complete).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_withdraws_one_of_two_questions_still_waits_without_a_permit() {
    let world = one_at_a_time(|arguments| match arguments {
        "{}" => vec![Step::Withdraw("name", Some("age"))],
        _ => Vec::new(),
    });
    let asking = world.start("{}").await;
    world.reach(asking, JobState::InputRequired).await;
    a_second().await;
    let keys: Vec<String> = world.jobs().questions(asking).into_iter().map(|open| open.key).collect();
    assert_eq!(
        (world.job(asking).await.state, &keys[..]),
        (JobState::InputRequired, &["age".to_owned()][..])
    );
    let other = world.start("[]").await;
    world.reach(other, JobState::Complete).await;
    answer(&world, asking, "age");
    world.reach(asking, JobState::Complete).await;
}

/// The tool detaches, and its end is being written before the caller can leave.
#[tokio::test(start_paused = true)]
async fn a_caller_gets_the_end_that_is_being_written_for_it_or_leaves_when_the_disk_is_full() {
    let world = setup(Timing::AsyncLong).build(|_| vec![Step::Detach]);
    *world.store.finish_takes.lock().unwrap() = Duration::from_millis(100);
    for (full_for, state) in [(0, JobState::Complete), (1, JobState::Running)] {
        world.store.full_for.store(full_for, Ordering::SeqCst);
        let began = Instant::now();
        let running = world.run(Call { wait: Wait::UntilDetached, ..call("{}") });
        let outcome = timeout(Duration::from_secs(5), running).await.unwrap();
        assert_eq!(outcome.meta.job.map(|(_, state)| state), Some(state), "{outcome:?}");
        assert!(began.elapsed().abs_diff(Duration::from_millis(100)) < Duration::from_millis(20));
        a_second().await;
        assert_eq!(world.job(outcome.meta.job.unwrap().0).await.state, JobState::Complete);
    }
}
