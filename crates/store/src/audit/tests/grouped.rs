//! Records of concurrent calls: written together, and none is lost when a caller goes away meanwhile.

use super::*;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future once; it must be pending.
fn poll_once(work: impl Future) {
    let mut work = pin!(work);
    let first = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(first, Poll::Pending), "it did not yield");
}

#[test]
fn a_caller_that_goes_away_while_its_begin_is_queued_leaves_a_cancelled_call() {
    let scratch = TempDir::new();
    let log = open(scratch.path(), Options::default());
    let other = log.begin(&call("{}"), &spec()).unwrap();
    let gone = call("{\"n\":1}");
    poll_once(log.begin_grouped(&gone, &spec()));
    other.end(&Outcome::success(None)).unwrap();
    drop(log);
    let found = records(scratch.path());
    let of_gone: Vec<&str> = found
        .iter()
        .filter(|record| record["call"] == gone.id.to_string())
        .map(|record| record["kind"].as_str().unwrap())
        .collect();
    assert_eq!(of_gone, ["begin", "end"], "{found:#?}");
    assert!(
        found.iter().any(|record| record["call"] == gone.id.to_string() && record["error"] == "cancelled")
    );
    assert!(verify(scratch.path()).unwrap().problems.is_empty());
}

#[test]
fn an_end_that_is_queued_is_written_though_its_caller_goes_away() {
    let scratch = TempDir::new();
    let log = open(scratch.path(), Options::default());
    let other = log.begin(&call("{}"), &spec()).unwrap();
    let gone = call("{\"n\":2}");
    let begun = log.begin(&gone, &spec()).unwrap();
    let outcome = Outcome::success(None);
    poll_once(begun.end_grouped(&outcome));
    other.end(&outcome).unwrap();
    drop(log);
    let found = records(scratch.path());
    let ends = found.iter().filter(|r| r["call"] == gone.id.to_string() && r["kind"] == "end");
    let ends: Vec<_> = ends.collect();
    assert_eq!(ends.len(), 1, "{found:#?}");
    assert_eq!(ends[0]["status"], "success", "{found:#?}");
    assert!(verify(scratch.path()).unwrap().problems.is_empty());
}

#[test]
fn a_single_call_does_not_yield() {
    let scratch = TempDir::new();
    let log = open(scratch.path(), Options::default());
    let (alone, spec) = (call("{}"), spec());
    let mut work = pin!(log.begin_grouped(&alone, &spec));
    let first = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(first, Poll::Ready(Ok(_))));
}
