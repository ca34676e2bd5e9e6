//! Conformance cases of jobs that are given back, whose workers die, and whose cancellation is requested.

use super::{Subject, at, id, on_every_subject};
use std::time::Duration;
use toolyard_engine::stores::Durability::Written;
use toolyard_engine::stores::{Created, JobEnd, JobFilter, Lease, NewJob, Recovered, UpdateResult};
use toolyard_protocol::{Identity, JobState, Payload, Progress, Timing};

on_every_subject!(
    a_job_that_is_given_back_is_pending_again,
    deaths_count_only_while_the_job_runs,
    cancel_requests_are_found_by_their_owner,
    the_progress_of_an_ended_job_is_its_last,
    a_summary_has_neither_arguments_nor_outcome,
);

fn new(n: u64, state: JobState) -> NewJob {
    NewJob {
        id: id(n),
        tool: "music.render".into(),
        arguments: Payload::json("{\"bars\":4}"),
        identity: Identity::new("anna"),
        timing: Timing::AsyncLong,
        repeatable: true,
        state,
        now: at(n),
        owner: id(900),
        key: None,
        trace: None,
        max_open: 1000,
        max_open_of_caller: 1000,
        ttl: Duration::from_secs(60),
    }
}

async fn created<S: Subject>(subject: &S, new: NewJob) -> Lease {
    match subject.jobs().create(new).await.unwrap() {
        Created::New(lease) => lease,
        Created::Existing(job) => panic!("the job already exists: {job:?}"),
    }
}

fn progress(done: f64, total: Option<f64>) -> Progress {
    Progress { done, total, message: Some("so far".into()) }
}

async fn a_job_that_is_given_back_is_pending_again<S: Subject>() {
    let subject = S::fresh(100);
    for (n, has_run) in [(1, false), (2, true)] {
        let lease = created(&subject, new(n, JobState::Running)).await;
        subject.jobs().progress(lease, progress(3.0, None), at(5)).await.unwrap();
        let given_back = subject.jobs().give_back(lease, has_run, at(6)).await;
        assert_eq!(given_back, Ok(UpdateResult::Applied));
        let job = subject.jobs().get(id(n)).await.unwrap().unwrap();
        assert_eq!((job.state, job.attempt), (JobState::Pending, u32::from(has_run)));
        assert_eq!((job.started, job.progress), (None, None));
        // The lease is still valid, and once more changes nothing.
        assert_eq!(subject.jobs().give_back(lease, has_run, at(7)).await, Ok(UpdateResult::Applied));
        assert_eq!(subject.jobs().start(lease, at(8), Written).await, Ok(UpdateResult::Applied));
        let stranger = Lease { fence: 2, ..lease };
        assert_eq!(subject.jobs().give_back(stranger, true, at(9)).await, Ok(UpdateResult::LeaseLost));
    }
}

async fn deaths_count_only_while_the_job_runs<S: Subject>() {
    let subject = S::fresh(100);
    created(&subject, new(1, JobState::Running)).await;
    for (n, expected) in [(1, vec![at(10)]), (2, vec![at(10)])] {
        let (from, to) = (id(899 + n), id(900 + n));
        let taken = subject.jobs().take_over(from, to, at(n * 10), 10).await.unwrap();
        let Recovered::Requeued(_, job) = &taken[0] else { panic!("{taken:?}") };
        assert_eq!((job.state, &job.deaths), (JobState::Pending, &expected));
    }
    let subject = subject.reopen().await;
    assert_eq!(subject.jobs().get(id(1)).await.unwrap().unwrap().deaths, [at(10)]);
    assert_eq!(subject.jobs().owners().await, Ok(vec![id(902)]));
}

async fn cancel_requests_are_found_by_their_owner<S: Subject>() {
    let subject = S::fresh(100);
    let mut leases = Vec::new();
    for n in 1..=4 {
        leases.push(created(&subject, new(n, JobState::Running)).await);
    }
    created(&subject, NewJob { owner: id(901), ..new(5, JobState::Running) }).await;
    assert_eq!(subject.jobs().cancel_requests(id(900)).await, Ok(vec![]));
    for n in [2, 3, 5] {
        subject.jobs().cancel(id(n), at(9)).await.unwrap();
    }
    assert_eq!(subject.jobs().cancel_requests(id(900)).await, Ok(vec![id(2), id(3)]));
    let (state, now, ttl) = (JobState::Cancelled, at(10), Duration::ZERO);
    let ending = JobEnd { state, outcome: None, progress: None, now, ttl };
    subject.jobs().finish(leases[1], ending, Written).await.unwrap();
    assert_eq!(subject.jobs().cancel_requests(id(900)).await, Ok(vec![id(3)]));
}

async fn the_progress_of_an_ended_job_is_its_last<S: Subject>() {
    let full = |total| Some(Progress { done: total, total: Some(total), message: None });
    let hundred = Some(Progress { done: 100.0, total: None, message: None });
    let cases = [
        (JobState::Complete, Some(progress(3.0, Some(7.0))), None, full(7.0)),
        (JobState::Complete, Some(progress(3.0, Some(0.0))), None, hundred.clone()),
        (JobState::Complete, Some(progress(3.0, None)), None, hundred.clone()),
        (JobState::Complete, None, Some(progress(60.0, None)), hundred),
        (JobState::Complete, None, None, None),
        (JobState::Failed, Some(progress(3.0, None)), None, Some(progress(3.0, None))),
        (JobState::Failed, Some(progress(3.0, None)), Some(progress(5.0, None)), Some(progress(5.0, None))),
    ];
    let subject = S::fresh(100);
    for (n, (state, written, last, expected)) in (1..).zip(cases) {
        let lease = created(&subject, new(n, JobState::Running)).await;
        if let Some(written) = written {
            subject.jobs().progress(lease, written, at(5)).await.unwrap();
        }
        let ending = JobEnd { state, outcome: None, progress: last, now: at(9), ttl: Duration::ZERO };
        subject.jobs().finish(lease, ending, Written).await.unwrap();
        assert_eq!(subject.jobs().get(id(n)).await.unwrap().unwrap().progress, expected, "{n}");
    }
}

async fn a_summary_has_neither_arguments_nor_outcome<S: Subject>() {
    let subject = S::fresh(100);
    let lease = created(&subject, new(1, JobState::Running)).await;
    let (state, outcome) = (JobState::Complete, Some(Payload::json("[]")));
    let ending = JobEnd { state, outcome, progress: None, now: at(9), ttl: Duration::ZERO };
    subject.jobs().finish(lease, ending, Written).await.unwrap();
    let list = async |is_summary| {
        let filter = JobFilter { limit: 1, is_summary, ..JobFilter::default() };
        subject.jobs().list(filter).await.unwrap().remove(0)
    };
    let (full, summary) = (list(false).await, list(true).await);
    assert_eq!((summary.arguments.len(), &summary.outcome), (0, &None));
    assert!(full.outcome.is_some());
    let (arguments, outcome) = (full.arguments.clone(), full.outcome.clone());
    assert_eq!(full, toolyard_protocol::Job { arguments, outcome, ..summary });
}
