//! One process of a history: faults at every await of its store, and a tool that does what its arguments say.

use super::MAX_RUNNING;
use futures_util::FutureExt;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tokio::sync::{Barrier, Notify};
use toolyard_engine::stores::{
    Created, Durability, JobEnd, JobFilter, JobStore, Lease, NewJob, Recovered, StoreError, StoreFuture,
    UpdateResult,
};
use toolyard_engine::{Run, RunFuture, Runner};
use toolyard_protocol::{
    Caller, Error, ErrorKind, Id, Identity, InputFuture, InputRequest, InputRequestBody, InputResponse, Job,
    JobState, LogLevel, LogLine, Outcome, Payload, Progress, Timestamp,
};
use toolyard_store::suite::memory;

/// What the tool of a call does; the first argument is its letter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Work {
    Quick,
    Slow,
    Ask,
    /// Asks, then writes more lines than listeners keep.
    AskAndLog,
    Panic,
    /// Fails while its question is open, and is tried again.
    AskTwice,
    /// Waits for others of its kind.
    Meet,
}

pub const WORKS: [Work; 6] =
    [Work::Quick, Work::Slow, Work::Ask, Work::AskAndLog, Work::Panic, Work::AskTwice];

/// What happened, over all processes of a history.
#[derive(Default)]
pub struct Ledger {
    pub runs: Mutex<HashMap<Id, u32>>,
    pub ends: Mutex<HashMap<Id, u32>>,
    pub counts: Mutex<HashMap<&'static str, u64>>,
}

impl Ledger {
    pub fn count(&self, what: &'static str) {
        *self.counts.lock().unwrap().entry(what).or_default() += 1;
    }
}

/// One process: its faults, and what runs in it.
pub struct Process {
    pub ledger: Arc<Ledger>,
    random: AtomicU64,
    /// The disk is full so many times.
    pub full: AtomicUsize,
    /// The store operation at which the process dies; `MAX`: none.
    dies_at: AtomicUsize,
    is_dead: RwLock<bool>,
    pub died: Notify,
    running: AtomicUsize,
    pub most: AtomicUsize,
    /// Jobs that go on without an answer, and so without having waited for a permit.
    pub forced: AtomicUsize,
    meeting: Barrier,
}

impl Process {
    pub fn new(ledger: &Arc<Ledger>, seed: u64, full: usize, dies_at: usize) -> Arc<Process> {
        Arc::new(Process {
            ledger: ledger.clone(),
            random: AtomicU64::new(seed),
            full: AtomicUsize::new(full),
            dies_at: AtomicUsize::new(dies_at),
            is_dead: RwLock::new(false),
            died: Notify::new(),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            forced: AtomicUsize::new(0),
            meeting: Barrier::new(MAX_RUNNING),
        })
    }

    pub fn below(&self, sides: u64) -> u64 {
        let step = |state: u64| {
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
        };
        let state = self.random.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| Some(step(state)));
        (step(state.unwrap()) >> 33) % sides
    }

    pub async fn dawdle(&self) {
        for _ in 0..self.below(4) {
            tokio::task::yield_now().await;
        }
    }

    /// Never returns once the process is dead.
    async fn live(&self) {
        let step = self.dies_at.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if step == Ok(1) {
            self.die();
        }
        if *self.is_dead.read().unwrap() {
            std::future::pending::<()>().await;
        }
    }

    /// From now on nothing that this process does reaches the store, as after kill -9.
    pub fn die(&self) {
        *self.is_dead.write().unwrap() = true;
        self.died.notify_one();
    }

    async fn fault(&self) -> Result<(), StoreError> {
        self.dawdle().await;
        self.live().await;
        if self.below(12) == 0 {
            let less = self.full.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if less.is_ok() {
                self.ledger.count("full");
                return Err(StoreError::Full);
            }
        }
        Ok(())
    }

    fn begin(self: &Arc<Self>) -> Active {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        Active(self.clone())
    }
}

/// A tool that runs, and does not wait for an answer.
struct Active(Arc<Process>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The job store of one process: a fault before each change, and a pause before each answer.
pub struct FaultyStore {
    pub inner: memory::Jobs,
    pub process: Arc<Process>,
}

impl FaultyStore {
    fn write<'a, T: Send + 'a>(
        &'a self,
        change: impl FnOnce(&'a memory::Jobs) -> StoreFuture<'a, T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.process.fault().await?;
            let changed = {
                // The change in memory is made by this call, so it is complete before the process can die.
                let is_dead = self.process.is_dead.read().unwrap();
                (!*is_dead).then(|| change(&self.inner))
            };
            let result = match changed {
                Some(changed) => changed.await,
                None => std::future::pending().await,
            };
            // The process may die after the change and before its answer.
            self.process.live().await;
            self.process.dawdle().await;
            result
        })
    }
}

impl JobStore for FaultyStore {
    fn create(&self, new: NewJob) -> StoreFuture<'_, Created> {
        self.write(|jobs| jobs.create(new))
    }

    fn start(&self, lease: Lease, now: Timestamp, durability: Durability) -> StoreFuture<'_, UpdateResult> {
        self.write(move |jobs| jobs.start(lease, now, durability))
    }

    fn progress(&self, lease: Lease, progress: Progress, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.write(move |jobs| jobs.progress(lease, progress, now))
    }

    fn set_waiting(&self, lease: Lease, waiting: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.write(move |jobs| jobs.set_waiting(lease, waiting, now))
    }

    fn finish(&self, lease: Lease, ending: JobEnd, durability: Durability) -> StoreFuture<'_, UpdateResult> {
        self.write(move |jobs| {
            let result = jobs.finish(lease, ending, durability).now_or_never().unwrap();
            if result == Ok(UpdateResult::Applied) {
                *self.process.ledger.ends.lock().unwrap().entry(lease.id).or_default() += 1;
            }
            Box::pin(std::future::ready(result))
        })
    }

    fn give_back(&self, lease: Lease, has_run: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.write(move |jobs| jobs.give_back(lease, has_run, now))
    }

    fn cancel_requests(&self, owner: Id) -> StoreFuture<'_, Vec<Id>> {
        self.inner.cancel_requests(owner)
    }

    fn cancel(&self, id: Id, now: Timestamp) -> StoreFuture<'_, JobState> {
        self.write(move |jobs| jobs.cancel(id, now))
    }

    fn take_over(&self, from: Id, to: Id, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Recovered>> {
        self.write(move |jobs| jobs.take_over(from, to, now, limit))
    }

    fn owners(&self) -> StoreFuture<'_, Vec<Id>> {
        self.inner.owners()
    }

    fn get(&self, id: Id) -> StoreFuture<'_, Option<Job>> {
        self.inner.get(id)
    }

    fn list(&self, filter: JobFilter) -> StoreFuture<'_, Vec<Job>> {
        self.inner.list(filter)
    }

    fn count(&self, identity: Option<Identity>) -> StoreFuture<'_, Vec<(JobState, u64)>> {
        self.inner.count(identity)
    }

    fn expire(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, u64> {
        self.inner.expire(now, limit)
    }
}

/// The tool: its arguments are the index of its work.
pub struct Worker(pub Arc<Process>);

impl Runner for Worker {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        Box::pin(async move {
            let process = &self.0;
            let first = {
                let mut runs = process.ledger.runs.lock().unwrap();
                let runs = runs.entry(run.call.id).or_default();
                *runs += 1;
                *runs == 1
            };
            let active = process.begin();
            process.dawdle().await;
            let n = std::str::from_utf8(run.call.arguments.bytes()).unwrap().parse::<usize>().unwrap();
            match WORKS.get(n).copied().unwrap_or(Work::Meet) {
                Work::Quick => {}
                Work::Slow => tokio::time::sleep(Duration::from_micros(process.below(3000))).await,
                Work::Ask => ask(process, active, run.caller, false).await?,
                Work::AskAndLog => ask(process, active, run.caller, true).await?,
                Work::Panic => {
                    process.ledger.count("panicked");
                    std::panic::panic_any("planned");
                }
                Work::AskTwice => {
                    if first {
                        process.forced.fetch_add(1, Ordering::SeqCst);
                        drop(active);
                        let question = run.caller.request_input(question());
                        tokio::select! {
                            biased;
                            _ = question => {}
                            () = process.dawdle() => {}
                        }
                        return Err(Error::new(ErrorKind::ToolFailed, "once more"));
                    }
                    ask(process, active, run.caller, false).await?;
                }
                Work::Meet => {
                    process.meeting.wait().await;
                }
            }
            Ok(Outcome::success(Some(Payload::json("1"))))
        })
    }
}

fn question() -> InputRequest {
    InputRequest { key: "sure".into(), body: InputRequestBody::Elicit(Payload::json("{}")) }
}

async fn ask(
    process: &Arc<Process>,
    active: Active,
    caller: &dyn Caller,
    is_talkative: bool,
) -> Result<(), Error> {
    process.ledger.count("asked");
    let asked = caller.request_input(question());
    drop(active);
    let talk = async {
        if is_talkative {
            process.ledger.count("behind");
            tokio::task::yield_now().await;
            for _ in 0..100 {
                let data = Payload::json("0");
                caller.log(LogLine { level: LogLevel::Info, logger: None, data });
            }
        }
    };
    let (answer, ()) = tokio::join!(asked, talk);
    let _active = process.begin();
    process.dawdle().await;
    // A full disk refuses the question with its reason; the tool goes on.
    match answer {
        Err(error) if error.kind != ErrorKind::Unavailable => Err(error),
        _ => Ok(()),
    }
}

/// Answers every question, after a while.
pub struct Answering(pub Arc<Process>);

impl Caller for Answering {
    fn progress(&self, _: Progress) {}

    fn log(&self, _: LogLine) {}

    fn request_input(&self, _: InputRequest) -> InputFuture<'_> {
        Box::pin(async {
            self.0.dawdle().await;
            Ok(InputResponse(Payload::json("1")))
        })
    }
}
