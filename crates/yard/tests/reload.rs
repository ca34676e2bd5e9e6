//! Random edits of a yard under load: no call is lost, no result is stale, and in the end the registry equals
//! a fresh load.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test states what it expects, in its helpers too"
)]

mod reload_model;

use reload_model::{State, Yard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use toolyard_engine::Snapshot;

/// The promise is a second, but this machine may be very busy.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Everything that a caller could tell from a snapshot.
fn shape(snapshot: &Snapshot) -> (Vec<String>, Vec<String>) {
    let tools = snapshot.entries().iter().map(|entry| format!("{} {:?}", entry.spec.name, entry.spec.digest));
    let problems =
        snapshot.problems().iter().map(|problem| format!("{}: {}", problem.source, problem.message));
    (tools.collect(), problems.collect())
}

/// Waits for the watcher, then asks every tool twice: the second answer may come from the cache.
async fn quiesce(yard: &Yard) {
    // Runs that began before the last edit end in this time.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let fresh = shape(&yard.loader().load().into_snapshot());
    let start = Instant::now();
    while shape(&yard.engine.registry.snapshot()) != fresh {
        assert!(
            start.elapsed() < TIMEOUT,
            "{:?}\nis not\n{fresh:?}",
            shape(&yard.engine.registry.snapshot())
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for tool in 0..yard.tools() {
        for _ in 0..2 {
            let (state, _) = yard.call(tool).await;
            assert_eq!(state, yard.now(tool), "tool {tool} is stale");
        }
    }
}

async fn edits_under_load(count: usize, polling: bool) {
    let yard = Arc::new(Yard::start(if polling { "polling" } else { "events" }, 12, polling));
    quiesce(&yard).await;
    let done = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4usize)
        .map(|caller| {
            let (yard, done) = (yard.clone(), done.clone());
            tokio::spawn(async move {
                let mut calls = Vec::new();
                let mut tool = caller;
                while !done.load(Ordering::Relaxed) {
                    tool = (tool + 5) % yard.tools();
                    let start = Instant::now();
                    let (state, _) = yard.call(tool).await;
                    calls.push((tool, start, Instant::now(), state));
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                calls
            })
        })
        .collect();
    let editor = yard.clone();
    let seed = 0x5eed + u64::from(polling);
    let mut random = reload_model::Random(seed);
    for edit in 1..=count {
        random = {
            let editor = editor.clone();
            tokio::task::spawn_blocking(move || {
                editor.edit(&mut random);
                random
            })
            .await
            .unwrap()
        };
        let pause = match random.below(10) {
            0..6 => random.below(20),
            6..9 => 20 + random.below(40),
            _ => 100 + random.below(100),
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if edit % 50 == 0 {
            quiesce(&yard).await;
        }
    }
    done.store(true, Ordering::Relaxed);
    let mut calls = 0;
    for caller in callers {
        for (tool, start, end, state) in caller.await.expect("no caller fails") {
            calls += 1;
            let possible = yard.between(tool, start, end);
            assert!(
                possible.contains(&state),
                "tool {tool} said {state:?}; it was {possible:?} (seed {seed})"
            );
        }
    }
    assert!(calls > count, "there was load: {calls} calls");
    quiesce(&yard).await;
    cached_when_deterministic(&yard).await;
    yard.engine.audit.close();
    let report = toolyard_store::audit::verify(&yard.state()).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

async fn cached_when_deterministic(yard: &Yard) {
    for tool in (0..yard.tools()).filter(|tool| yard.is_deterministic(*tool)) {
        if let State::Answer(_) = yard.now(tool) {
            assert!(yard.call(tool).await.1, "tool {tool} is still cached after all that");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_random_edits_under_load() {
    edits_under_load(500, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_random_edits_found_by_polling() {
    edits_under_load(100, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_call_outlives_the_edit_and_the_removal_of_its_tool() {
    let yard = Arc::new(Yard::start("running", 0, false));
    let slow = |answer: &str| {
        format!("id: slow\nkind: cli\nentry: [sh, -c, 'sleep 1; echo \"\\\"{answer}\\\"\"']\n")
    };
    let settled = async |there: bool, old: Option<[u8; 32]>| {
        let start = Instant::now();
        loop {
            let found = yard.engine.registry.find("slow").map(|entry| entry.spec.digest.0);
            if found.is_some() == there && (found.is_none() || found != old) {
                return found;
            }
            assert!(start.elapsed() < TIMEOUT);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let begin = || {
        let yard = yard.clone();
        tokio::spawn(async move { yard.call_named("slow").await.0 })
    };
    yard.write("tools/slow.tool.yaml", &slow("one"));
    let first = settled(true, None).await;
    let before_edit = begin();
    tokio::time::sleep(Duration::from_millis(100)).await;
    yard.write("tools/slow.tool.yaml", &slow("two"));
    let second = settled(true, first).await;
    assert!(!before_edit.is_finished());
    let before_removal = begin();
    tokio::time::sleep(Duration::from_millis(100)).await;
    yard.remove("tools");
    settled(false, second).await;
    assert!(!before_removal.is_finished());
    assert_eq!(yard.call_named("slow").await.0, State::Unknown);
    assert_eq!(before_edit.await.unwrap(), State::Answer("\"one\"".to_owned()));
    assert_eq!(before_removal.await.unwrap(), State::Answer("\"two\"".to_owned()));
}
