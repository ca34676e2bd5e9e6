//! The result cache: equal calls share one run, and rows expire.

use crate::{FakeClock, spec};
use futures_util::FutureExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use toolyard_engine::cache::{Cache, Key, Options, SharedRun};
use toolyard_protocol::{Identity, Outcome, Payload};
use toolyard_store::suite::memory;

fn key(n: u64) -> Key {
    Key::new(&spec(), None, &Identity::local(), &n.to_le_bytes())
}

fn result(text: &str) -> Outcome {
    Outcome::success(Some(Payload::json(text.to_owned())))
}

fn open() -> (Arc<Cache>, Arc<FakeClock>) {
    let clock = FakeClock::at(1_000_000);
    (Cache::new(Box::new(memory::Cache::default()), Options::default(), clock.clone()), clock)
}

#[test]
fn a_clock_that_jumped_back_does_not_extend_the_life_of_a_row() {
    let (cache, clock) = open();
    cache.put(&key(1), &result("1"));
    clock.0.store(5, Ordering::Relaxed);
    assert_eq!(cache.get(&key(1)), None);
}

#[tokio::test]
async fn equal_runs_are_shared_and_run_while_any_caller_waits() {
    let (cache, _) = open();
    let (started, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let flight = || {
        let (started, finished) = (started.clone(), finished.clone());
        cache.single_flight(key(1), 0, move || {
            async move {
                started.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(50)).await;
                finished.fetch_add(1, Ordering::SeqCst);
                SharedRun { result: Ok(result("1")), inputs: None, stored: Arc::default() }
            }
            .boxed()
        })
    };
    let first = tokio::spawn(flight());
    let second = tokio::spawn(flight());
    tokio::time::sleep(Duration::from_millis(10)).await;
    first.abort();
    assert_eq!(second.await.unwrap().result.unwrap(), result("1"));
    assert_eq!((started.load(Ordering::SeqCst), finished.load(Ordering::SeqCst)), (1, 1));
    // The run is dropped with its last caller.
    let alone = tokio::spawn(flight());
    tokio::time::sleep(Duration::from_millis(10)).await;
    alone.abort();
    tokio::time::sleep(Duration::from_millis(80)).await;
    assert_eq!((started.load(Ordering::SeqCst), finished.load(Ordering::SeqCst)), (2, 1));
}
