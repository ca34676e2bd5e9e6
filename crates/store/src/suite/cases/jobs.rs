//! Conformance cases of jobs.

use super::{Subject, at, id, on_every_subject};
use serde_json::{Value, json};
use std::time::Duration;
use toolyard_engine::stores::Durability::{Synced, Written};
use toolyard_engine::stores::{
    Created, EventQuery, JobEnd, JobFilter, Lease, NewJob, Recovered, StoreError, UpdateResult,
};
use toolyard_protocol::{Format, Id, Identity, Job, JobState, Payload, Progress, Timing};

on_every_subject!(
    a_new_job_is_stored_as_given,
    a_key_returns_its_job_until_that_expires,
    ids_and_states_that_cannot_be_are_refused,
    open_jobs_are_bounded_for_all_and_for_each_caller,
    a_start_makes_a_pending_job_run_once,
    progress_replaces_earlier_progress_and_is_an_event,
    a_running_job_can_wait_for_input_and_go_on,
    exactly_one_finish_takes_effect,
    a_pending_job_can_end_without_a_start,
    a_cancel_ends_what_is_pending_and_marks_what_runs,
    a_take_over_repeats_what_may_be_repeated,
    a_take_over_ends_every_older_lease,
    a_take_over_goes_on_from_its_limit_and_never_from_oneself,
    lists_are_newest_first_and_filtered,
    counts_follow_the_jobs,
    only_what_is_over_and_due_expires,
    each_change_of_state_is_one_event,
);

const RING: u64 = 1000;
const WORKER: u64 = 9_000_001;
const OTHER: u64 = 9_000_002;
const TTL: Duration = Duration::from_secs(60);

fn new(n: u64) -> NewJob {
    NewJob {
        id: id(n),
        tool: "music.render".into(),
        arguments: Payload::json("{\"bars\":4}"),
        identity: Identity::new("anna"),
        timing: Timing::AsyncLong,
        repeatable: true,
        state: JobState::Pending,
        now: at(n),
        owner: id(WORKER),
        key: None,
        trace: None,
        max_open: 1000,
        max_open_of_caller: 1000,
        ttl: TTL,
    }
}

fn running(n: u64) -> NewJob {
    NewJob { state: JobState::Running, ..new(n) }
}

fn ending(state: JobState, ms: u64) -> JobEnd {
    JobEnd { state, outcome: Some(Payload::json("{\"ok\":true}")), progress: None, now: at(ms), ttl: TTL }
}

async fn created<S: Subject>(subject: &S, new: NewJob) -> Lease {
    match subject.jobs().create(new).await.unwrap() {
        Created::New(lease) => lease,
        Created::Existing(job) => panic!("the job already exists: {job:?}"),
    }
}

async fn get<S: Subject>(subject: &S, n: u64) -> Job {
    subject.jobs().get(id(n)).await.unwrap().unwrap()
}

async fn job_events<S: Subject>(subject: &S) -> Vec<(String, Value)> {
    let query = EventQuery { after: Some(0), limit: 1000, ..Default::default() };
    let page = subject.events().read(query).await.unwrap();
    let data = |payload: &Payload| serde_json::from_slice::<Value>(payload.bytes()).unwrap();
    for event in &page.events {
        assert_eq!(event.subject.as_deref(), data(&event.data)["job_id"].as_str());
    }
    page.events.iter().map(|event| (event.kind.clone(), data(&event.data))).collect()
}

fn is_invalid<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Invalid(_))), "{result:?}");
}

async fn a_new_job_is_stored_as_given<S: Subject>() {
    let subject = S::fresh(RING);
    let full = NewJob {
        key: Some("key".into()),
        trace: Some("00-trace".into()),
        arguments: Payload::new(Format::MsgPack, vec![0x80]),
        repeatable: false,
        state: JobState::Running,
        ..new(2)
    };
    assert_eq!(created(&subject, new(1)).await, Lease { id: id(1), owner: id(WORKER), fence: 1 });
    created(&subject, full).await;
    let subject = subject.reopen().await;
    let first = Job {
        id: id(1),
        tool: "music.render".into(),
        arguments: Payload::json("{\"bars\":4}"),
        identity: Identity::new("anna"),
        timing: Timing::AsyncLong,
        state: JobState::Pending,
        progress: None,
        outcome: None,
        created: at(1),
        started: None,
        finished: None,
        attempt: 0,
        deaths: Vec::new(),
        repeatable: true,
        cancel_requested: false,
        key: None,
        trace: None,
        expires: None,
    };
    let second = Job {
        id: id(2),
        key: Some("key".into()),
        trace: Some("00-trace".into()),
        arguments: Payload::new(Format::MsgPack, vec![0x80]),
        repeatable: false,
        state: JobState::Running,
        created: at(2),
        started: Some(at(2)),
        attempt: 1,
        ..first.clone()
    };
    assert_eq!(get(&subject, 1).await, first);
    assert_eq!(get(&subject, 2).await, second);
    assert_eq!(subject.jobs().get(id(3)).await, Ok(None));
}

async fn a_key_returns_its_job_until_that_expires<S: Subject>() {
    let subject = S::fresh(RING);
    let keyed = |n| NewJob { key: Some("once".into()), ..running(n) };
    let lease = created(&subject, keyed(1)).await;
    let subject = subject.reopen().await;
    // Even when no further job is admitted.
    let again = NewJob { max_open: 0, max_open_of_caller: 0, tool: "music.render".into(), ..keyed(2) };
    let existing = Created::Existing(Box::new(get(&subject, 1).await));
    assert_eq!(subject.jobs().create(again).await, Ok(existing));
    assert_eq!(subject.jobs().get(id(2)).await, Ok(None));
    created(&subject, NewJob { identity: Identity::new("bert"), ..keyed(3) }).await;
    created(&subject, NewJob { tool: "music.other".into(), ..keyed(4) }).await;
    created(&subject, NewJob { key: Some("twice".into()), ..keyed(5) }).await;
    created(&subject, running(6)).await;
    created(&subject, running(7)).await;

    subject.jobs().finish(lease, ending(JobState::Failed, 10), Written).await.unwrap();
    let existing = Created::Existing(Box::new(get(&subject, 1).await));
    assert_eq!(subject.jobs().create(keyed(8)).await, Ok(existing), "ended, but not expired");
    assert_eq!(subject.jobs().expire(at(10 + 60_000), 10).await, Ok(1));
    created(&subject, keyed(9)).await;
}

async fn ids_and_states_that_cannot_be_are_refused<S: Subject>() {
    let subject = S::fresh(RING);
    created(&subject, new(1)).await;
    is_invalid(subject.jobs().create(new(1)).await);
    for state in JobState::ALL.into_iter().filter(|state| *state > JobState::Running) {
        is_invalid(subject.jobs().create(NewJob { state, ..new(2) }).await);
    }
    assert_eq!(subject.jobs().count(None).await, Ok(vec![(JobState::Pending, 1)]));
    assert_eq!(job_events(&subject).await.len(), 1);
}

async fn open_jobs_are_bounded_for_all_and_for_each_caller<S: Subject>() {
    let subject = S::fresh(RING);
    let few = |n| NewJob { max_open: 3, max_open_of_caller: 2, ..running(n) };
    let bert = |n| NewJob { identity: Identity::new("bert"), ..few(n) };
    let lease = created(&subject, few(1)).await;
    created(&subject, few(2)).await;
    let refused = subject.jobs().create(few(3)).await;
    assert!(matches!(&refused, Err(StoreError::Bound(why)) if why.contains("this caller has 2 open jobs")));
    created(&subject, bert(4)).await;
    let refused = subject.jobs().create(bert(5)).await;
    assert!(
        matches!(&refused, Err(StoreError::Bound(why)) if why.contains("there are 3 open jobs")),
        "{refused:?}"
    );
    subject.jobs().finish(lease, ending(JobState::Complete, 9), Written).await.unwrap();
    created(&subject, bert(6)).await;
    assert_eq!(job_events(&subject).await.len(), 5, "a refusal appends no event");
}

async fn a_start_makes_a_pending_job_run_once<S: Subject>() {
    let subject = S::fresh(RING);
    let lease = created(&subject, new(1)).await;
    for wrong in
        [Lease { owner: id(OTHER), ..lease }, Lease { fence: 2, ..lease }, Lease { id: id(2), ..lease }]
    {
        assert_eq!(subject.jobs().start(wrong, at(5), Written).await, Ok(UpdateResult::LeaseLost));
    }
    assert_eq!(get(&subject, 1).await.state, JobState::Pending);
    assert_eq!(subject.jobs().start(lease, at(5), Synced).await, Ok(UpdateResult::Applied));
    let subject = subject.reopen().await;
    let job = get(&subject, 1).await;
    assert_eq!((job.state, job.started, job.attempt), (JobState::Running, Some(at(5)), 1));
    is_invalid(subject.jobs().start(lease, at(6), Written).await);
    assert_eq!(get(&subject, 1).await, job);
}

async fn progress_replaces_earlier_progress_and_is_an_event<S: Subject>() {
    let subject = S::fresh(RING);
    let lease = created(&subject, running(1)).await;
    let half = Progress { done: 2.0, total: Some(4.0), message: Some("half \"way\"".into()) };
    assert_eq!(subject.jobs().progress(lease, half.clone(), at(2)).await, Ok(UpdateResult::Applied));
    assert_eq!(get(&subject, 1).await.progress, Some(half));
    let long = Progress { done: 75.0, total: None, message: Some("x".repeat(2000)) };
    assert_eq!(subject.jobs().progress(lease, long.clone(), at(3)).await, Ok(UpdateResult::Applied));
    let subject = subject.reopen().await;
    assert_eq!(get(&subject, 1).await.progress, Some(long.clone()));
    let plain = Progress { done: 0.0, total: None, message: None };
    assert_eq!(subject.jobs().progress(lease, plain.clone(), at(4)).await, Ok(UpdateResult::Applied));
    assert_eq!(get(&subject, 1).await.progress, Some(plain.clone()));

    for done in [f64::NAN, f64::INFINITY] {
        is_invalid(subject.jobs().progress(lease, Progress { done, ..plain.clone() }, at(5)).await);
    }
    let stale = Lease { fence: 0, ..lease };
    assert_eq!(subject.jobs().progress(stale, long, at(5)).await, Ok(UpdateResult::LeaseLost));
    assert_eq!(get(&subject, 1).await.progress, Some(plain));
    let job_id = id(1).to_string();
    let events: Vec<Value> =
        job_events(&subject).await.into_iter().filter(|e| e.0 == "progress").map(|e| e.1).collect();
    assert_eq!(
        events,
        [
            json!({"job_id": job_id, "percent": 0.5, "message": "half \"way\""}),
            json!({"job_id": job_id, "percent": 0.75, "message": "x".repeat(1024) + "…"}),
            json!({"job_id": job_id, "percent": 0.0}),
        ]
    );
}

async fn a_running_job_can_wait_for_input_and_go_on<S: Subject>() {
    let subject = S::fresh(RING);
    let lease = created(&subject, new(1)).await;
    is_invalid(subject.jobs().set_waiting(lease, true, at(2)).await);
    subject.jobs().start(lease, at(3), Written).await.unwrap();
    for (waiting, state) in [
        (false, JobState::Running),
        (true, JobState::InputRequired),
        (true, JobState::InputRequired),
        (false, JobState::Running),
    ] {
        assert_eq!(subject.jobs().set_waiting(lease, waiting, at(4)).await, Ok(UpdateResult::Applied));
        assert_eq!(get(&subject, 1).await.state, state);
    }
    assert_eq!(job_events(&subject).await.len(), 4, "setting the current state is no change");
    let stale = Lease { owner: id(OTHER), ..lease };
    assert_eq!(subject.jobs().set_waiting(stale, true, at(5)).await, Ok(UpdateResult::LeaseLost));
    assert_eq!(get(&subject, 1).await.attempt, 1);
}

async fn exactly_one_finish_takes_effect<S: Subject>() {
    let subject = S::fresh(RING);
    let lease = created(&subject, running(1)).await;
    for open in [JobState::Pending, JobState::Running, JobState::InputRequired] {
        is_invalid(subject.jobs().finish(lease, ending(open, 5), Written).await);
    }
    let foreign = Lease { owner: id(OTHER), ..lease };
    assert_eq!(
        subject.jobs().finish(foreign, ending(JobState::Failed, 5), Synced).await,
        Ok(UpdateResult::LeaseLost)
    );
    assert_eq!(
        subject.jobs().finish(lease, ending(JobState::Complete, 6), Synced).await,
        Ok(UpdateResult::Applied)
    );
    let subject = subject.reopen().await;
    let over = get(&subject, 1).await;
    assert_eq!(
        (over.state, over.finished, over.expires),
        (JobState::Complete, Some(at(6)), Some(at(60_006)))
    );
    assert_eq!(over.outcome, Some(Payload::json("{\"ok\":true}")));
    let second = ending(JobState::Failed, 7);
    assert_eq!(subject.jobs().finish(lease, second, Synced).await, Ok(UpdateResult::LeaseLost));
    assert_eq!(subject.jobs().start(lease, at(8), Synced).await, Ok(UpdateResult::LeaseLost));
    assert_eq!(subject.jobs().set_waiting(lease, true, at(8)).await, Ok(UpdateResult::LeaseLost));
    assert_eq!(get(&subject, 1).await, over);
    assert_eq!(job_events(&subject).await.len(), 2);
}

async fn a_pending_job_can_end_without_a_start<S: Subject>() {
    let subject = S::fresh(RING);
    let lease = created(&subject, new(1)).await;
    let bare = JobEnd { outcome: None, ttl: Duration::MAX, ..ending(JobState::Failed, 5) };
    assert_eq!(subject.jobs().finish(lease, bare, Written).await, Ok(UpdateResult::Applied));
    let job = get(&subject, 1).await;
    assert_eq!((job.state, job.started, job.attempt, job.outcome), (JobState::Failed, None, 0, None));
    assert_eq!(subject.jobs().expire(at(u64::MAX / 4), 10).await, Ok(0), "never expires");
}

async fn a_cancel_ends_what_is_pending_and_marks_what_runs<S: Subject>() {
    let subject = S::fresh(RING);
    let pending = created(&subject, new(1)).await;
    let lease = created(&subject, running(2)).await;
    let missing = subject.jobs().cancel(id(7), at(5)).await;
    assert_eq!(missing, Err(StoreError::NotFound { what: "job", id: id(7).to_string() }));
    assert_eq!(subject.jobs().cancel(id(1), at(5)).await, Ok(JobState::Cancelled));
    assert_eq!(subject.jobs().cancel(id(2), at(5)).await, Ok(JobState::Running));
    let subject = subject.reopen().await;
    let job = get(&subject, 1).await;
    assert_eq!((job.state, job.cancel_requested, job.outcome), (JobState::Cancelled, true, None));
    assert_eq!((job.finished, job.expires), (Some(at(5)), Some(at(60_005))));
    assert_eq!(subject.jobs().start(pending, at(6), Written).await, Ok(UpdateResult::LeaseLost));
    let job = get(&subject, 2).await;
    assert_eq!((job.state, job.cancel_requested, job.finished), (JobState::Running, true, None));
    // The worker may finish before it sees the request.
    let done = subject.jobs().finish(lease, ending(JobState::Complete, 7), Written).await;
    assert_eq!(done, Ok(UpdateResult::Applied));
    let over = get(&subject, 2).await;
    assert_eq!(subject.jobs().cancel(id(2), at(8)).await, Ok(JobState::Complete));
    assert_eq!(get(&subject, 2).await, over);
    assert_eq!(job_events(&subject).await.len(), 4, "a cancel request alone is no change of state");
}

async fn a_take_over_repeats_what_may_be_repeated<S: Subject>() {
    let subject = S::fresh(RING);
    let once = |n| NewJob { repeatable: false, ..running(n) };
    created(&subject, NewJob { repeatable: false, ..new(1) }).await;
    let repeatable = created(&subject, running(2)).await;
    created(&subject, once(3)).await;
    let asking = created(&subject, once(4)).await;
    created(&subject, running(5)).await;
    let over = created(&subject, running(6)).await;
    created(&subject, NewJob { owner: id(OTHER), ..running(7) }).await;
    let progress = Progress { done: 1.0, total: None, message: None };
    subject.jobs().progress(repeatable, progress, at(8)).await.unwrap();
    subject.jobs().set_waiting(asking, true, at(8)).await.unwrap();
    subject.jobs().cancel(id(5), at(8)).await.unwrap();
    subject.jobs().finish(over, ending(JobState::Complete, 8), Written).await.unwrap();
    let subject = subject.reopen().await;
    assert_eq!(subject.jobs().owners().await, Ok(vec![id(WORKER), id(OTHER)]));

    let to = id(9_000_003);
    let recovered = subject.jobs().take_over(id(WORKER), to, at(20), 100).await.unwrap();

    let again = |n, job| Recovered::Requeued(Lease { id: id(n), owner: to, fence: 2 }, Box::new(job));
    let (first, second) = (get(&subject, 1).await, get(&subject, 2).await);
    assert_eq!((first.state, first.attempt), (JobState::Pending, 0));
    assert_eq!((second.state, second.attempt, second.started), (JobState::Pending, 1, None));
    assert_eq!(second.progress, None);
    let expected = [
        again(1, first),
        again(2, second),
        Recovered::Ended(id(3), JobState::Unknown),
        Recovered::Ended(id(4), JobState::Unknown),
        Recovered::Ended(id(5), JobState::Cancelled),
    ];
    assert_eq!(recovered, expected);
    for (n, state) in [(3, JobState::Unknown), (4, JobState::Unknown), (5, JobState::Cancelled)] {
        let job = get(&subject, n).await;
        assert_eq!((job.state, job.finished, job.expires), (state, Some(at(20)), Some(at(60_020))), "{n}");
    }
    assert_eq!(get(&subject, 7).await.state, JobState::Running);
    assert_eq!(subject.jobs().owners().await, Ok(vec![id(OTHER), to]));
    let states: Vec<Value> =
        job_events(&subject).await.into_iter().skip(10).map(|event| event.1["state"].clone()).collect();
    assert_eq!(states, ["pending", "unknown", "unknown", "cancelled"], "the first only changed its owner");
}

async fn a_take_over_ends_every_older_lease<S: Subject>() {
    let subject = S::fresh(RING);
    let mut old = created(&subject, running(1)).await;
    for round in 0..5u64 {
        let to = if round.is_multiple_of(2) { id(OTHER) } else { id(WORKER) };
        let recovered = subject.jobs().take_over(old.owner, to, at(10), 10).await.unwrap();
        let [Recovered::Requeued(lease, job)] = &recovered[..] else { panic!("{recovered:?}") };
        assert!(lease.fence > old.fence);
        assert_eq!(u64::from(job.attempt), round + 1);
        let complete = ending(JobState::Complete, 11);
        assert_eq!(subject.jobs().finish(old, complete, Written).await, Ok(UpdateResult::LeaseLost));
        assert_eq!(subject.jobs().start(old, at(11), Written).await, Ok(UpdateResult::LeaseLost));
        assert_eq!(subject.jobs().start(*lease, at(12), Written).await, Ok(UpdateResult::Applied));
        old = *lease;
    }
    assert_eq!(get(&subject, 1).await.attempt, 6);
    let complete = ending(JobState::Complete, 13);
    assert_eq!(subject.jobs().finish(old, complete, Written).await, Ok(UpdateResult::Applied));
    assert_eq!(subject.jobs().take_over(old.owner, id(77), at(14), 10).await, Ok(vec![]));
}

async fn a_take_over_goes_on_from_its_limit_and_never_from_oneself<S: Subject>() {
    let subject = S::fresh(RING);
    for n in [3, 1, 2] {
        created(&subject, running(n)).await;
    }
    is_invalid(subject.jobs().take_over(id(WORKER), id(WORKER), at(9), 10).await);
    let mut seen = Vec::new();
    for expected in [2, 1, 0] {
        let recovered = subject.jobs().take_over(id(WORKER), id(OTHER), at(9), 2).await.unwrap();
        assert_eq!(recovered.len(), expected);
        seen.extend(recovered.into_iter().map(|one| match one {
            Recovered::Requeued(lease, _) => lease.id,
            Recovered::Ended(id, _) => id,
        }));
    }
    assert_eq!(seen, [id(1), id(2), id(3)], "oldest first");
    assert_eq!(subject.jobs().take_over(id(555), id(OTHER), at(9), 2).await, Ok(vec![]));
}

async fn lists_are_newest_first_and_filtered<S: Subject>() {
    let subject = S::fresh(RING);
    for n in [2, 5, 1, 4, 3] {
        let identity = Identity::new(if n <= 2 { "anna" } else { "bert" });
        let tool = if n == 3 { "music.other" } else { "music.render" };
        let lease = created(&subject, NewJob { identity, tool: tool.into(), ..running(n) }).await;
        if n >= 4 {
            subject.jobs().finish(lease, ending(JobState::Complete, 9), Written).await.unwrap();
        }
    }
    let list = async |filter: JobFilter| -> Vec<Id> {
        subject.jobs().list(filter).await.unwrap().iter().map(|job| job.id).collect()
    };
    let all = JobFilter { limit: 10, ..Default::default() };
    assert_eq!(list(all.clone()).await, [5, 4, 3, 2, 1].map(id));
    assert_eq!(list(JobFilter { limit: 2, ..all.clone() }).await, [5, 4].map(id));
    assert_eq!(list(JobFilter { before: Some(id(4)), limit: 2, ..all.clone() }).await, [3, 2].map(id));
    let bert = JobFilter { identity: Some(Identity::new("bert")), ..all.clone() };
    assert_eq!(list(bert.clone()).await, [5, 4, 3].map(id));
    assert_eq!(list(JobFilter { states: vec![JobState::Complete], ..bert.clone() }).await, [5, 4].map(id));
    assert_eq!(list(JobFilter { tool: Some("music.other".into()), ..bert }).await, [id(3)]);
    let open = JobFilter { states: vec![JobState::Running, JobState::Pending], ..all.clone() };
    assert_eq!(list(open).await, [3, 2, 1].map(id));
    assert_eq!(list(JobFilter { limit: 0, ..all }).await, []);
}

async fn counts_follow_the_jobs<S: Subject>() {
    use JobState::{Cancelled, Complete, InputRequired, Pending, Running};
    let subject = S::fresh(RING);
    let anna = || Some(Identity::new("anna"));
    assert_eq!(subject.jobs().count(None).await, Ok(vec![]));
    let lease = created(&subject, new(1)).await;
    created(&subject, new(2)).await;
    created(&subject, NewJob { identity: Identity::new(""), ..running(3) }).await;
    assert_eq!(subject.jobs().count(None).await, Ok(vec![(Pending, 2), (Running, 1)]));
    assert_eq!(subject.jobs().count(anna()).await, Ok(vec![(Pending, 2)]));
    assert_eq!(subject.jobs().count(Some(Identity::new(""))).await, Ok(vec![(Running, 1)]));
    assert_eq!(subject.jobs().count(Some(Identity::new("else"))).await, Ok(vec![]));
    subject.jobs().start(lease, at(4), Written).await.unwrap();
    subject.jobs().set_waiting(lease, true, at(4)).await.unwrap();
    subject.jobs().cancel(id(2), at(4)).await.unwrap();
    assert_eq!(subject.jobs().count(anna()).await, Ok(vec![(InputRequired, 1), (Cancelled, 1)]));
    subject.jobs().finish(lease, ending(Complete, 5), Written).await.unwrap();
    let subject = subject.reopen().await;
    assert_eq!(subject.jobs().count(None).await, Ok(vec![(Running, 1), (Complete, 1), (Cancelled, 1)]));
    assert_eq!(subject.jobs().expire(at(100_000), 10).await, Ok(2));
    assert_eq!(subject.jobs().count(anna()).await, Ok(vec![]));
    assert_eq!(subject.jobs().count(None).await, Ok(vec![(Running, 1)]));
}

async fn only_what_is_over_and_due_expires<S: Subject>() {
    let subject = S::fresh(RING);
    for n in 1..=4u64 {
        let lease = created(&subject, running(n)).await;
        if n < 4 {
            let ttl = Duration::from_millis(100 - n);
            let ending = JobEnd { ttl, ..ending(JobState::Complete, 0) };
            subject.jobs().finish(lease, ending, Written).await.unwrap();
        }
    }
    assert_eq!(subject.jobs().expire(at(96), 10).await, Ok(0));
    assert_eq!(subject.jobs().expire(at(98), 1).await, Ok(1), "the longest due goes first");
    assert_eq!(subject.jobs().get(id(3)).await, Ok(None));
    assert_eq!(subject.jobs().expire(at(98), 10).await, Ok(1));
    assert_eq!(subject.jobs().expire(at(50), 10).await, Ok(0), "a clock that went back removes nothing");
    assert_eq!(subject.jobs().expire(at(u64::MAX / 4), 10).await, Ok(1));
    assert_eq!(get(&subject, 4).await.state, JobState::Running);
    assert_eq!(subject.jobs().expire(at(u64::MAX / 4), 10).await, Ok(0));
}

async fn each_change_of_state_is_one_event<S: Subject>() {
    let subject = S::fresh(RING);
    let lease = created(&subject, new(1)).await;
    subject.jobs().start(lease, at(2), Written).await.unwrap();
    subject.jobs().set_waiting(lease, true, at(3)).await.unwrap();
    subject.jobs().set_waiting(lease, false, at(4)).await.unwrap();
    subject.jobs().finish(lease, ending(JobState::Failed, 5), Written).await.unwrap();
    let subject = subject.reopen().await;
    let states = ["pending", "running", "input_required", "running", "failed"];
    let expected = states.map(|state| {
        let data = json!({"job_id": id(1).to_string(), "tool": "music.render", "state": state});
        ("job_state_changed".to_owned(), data)
    });
    assert_eq!(job_events(&subject).await, expected);
    let query = EventQuery { after: Some(0), limit: 10, ..Default::default() };
    let times: Vec<_> =
        subject.events().read(query).await.unwrap().events.iter().map(|event| event.at).collect();
    assert_eq!(times, [1, 2, 3, 4, 5].map(at));
}
