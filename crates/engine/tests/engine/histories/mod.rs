//! Random histories of jobs on the multi-thread runtime. A process crashes, shuts down or goes on at any await of
//! the store; meanwhile callers leave, tools panic, the disk is full and listeners fall behind. A second process
//! goes on with what the first left. Then every guarantee is checked.

mod process;

use crate::scripted::{ByArguments, PlainCodec, TestAudit};
use crate::{FakeClock, TempDir, spec};
use process::{Answering, FaultyStore, Ledger, Process, WORKS, Worker};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use toolyard_engine::cache::Cache;
use toolyard_engine::clock::{SystemClock, SystemRandom, new_id};
use toolyard_engine::jobs::{Jobs, LazyJobs, Options, Parts};
use toolyard_engine::stores::{JobFilter, JobStore};
use toolyard_engine::{CallLimit, Candidate, Engine, Entry, Lazy, Registry, Snapshot, ToolLimiter};
use toolyard_protocol::{
    Annotations, Call, Caller, Edge, ExposedName, Id, Identity, InputResponse, Job, JobState, NoopCaller,
    NoopRedactor, Payload, Retry, Timing, ToolName, Wait,
};
use toolyard_store::suite::memory::{self, Memory};

const HISTORIES: u64 = 10_000;
/// Most of a history is waiting, so many run at once.
const THREADS: u64 = 128;
const MAX_RUNNING: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn every_job_ends_once_whatever_happens_at_any_await() {
    quiet_planned_panics();
    let next = AtomicU64::new(0);
    let totals = Mutex::new(HashMap::<&str, u64>::new());
    std::thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| {
                let folder = TempDir::new();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= HISTORIES {
                        return;
                    }
                    let counts = History::new(seed, folder.path()).run();
                    let mut totals = totals.lock().unwrap();
                    counts.into_iter().for_each(|(what, count)| *totals.entry(what).or_default() += count);
                }
            });
        }
    });
    let mut totals: Vec<_> = totals.into_inner().unwrap().into_iter().collect();
    totals.sort();
    eprintln!("{HISTORIES} histories: {totals:?}");
    // A history in which nothing happens proves nothing.
    for what in ["crashed", "stopped", "went on", "left", "panicked", "full", "asked", "behind", "taken over"]
    {
        let count = totals.iter().find(|(name, _)| *name == what).map_or(0, |(_, count)| *count);
        assert!(count > HISTORIES / 100, "{what} happened {count} times only");
    }
}

fn quiet_planned_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&"planned") {
            report(info);
        }
    }));
}

/// What was promised to a caller.
struct Promise {
    call: Id,
    job: Option<(Id, JobState)>,
    tool: &'static str,
    is_cancelled: bool,
}

struct History<'a> {
    seed: u64,
    folder: &'a std::path::Path,
    memory: Memory,
    ledger: Arc<Ledger>,
}

const TOOLS: [(&str, bool); 2] = [("example.once", false), ("example.again", true)];

impl History<'_> {
    fn new(seed: u64, folder: &std::path::Path) -> History<'_> {
        History { seed, folder, memory: Memory::new(50), ledger: Arc::default() }
    }

    fn run(self) -> HashMap<&'static str, u64> {
        let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let plan = Process::new(&self.ledger, seed, 0, usize::MAX);
        let ending = plan.below(3);
        let dies_at = if ending == 0 { 1 + plan.below(30) as usize } else { usize::MAX };
        let first = Process::new(&self.ledger, seed ^ 1, plan.below(3) as usize, dies_at);
        let promises = self.first_process(&first, ending);
        let left = self.rows();
        let second = Process::new(&self.ledger, seed ^ 2, 0, usize::MAX);
        let rows = self.second_process(&second);
        self.check(&promises, &left, &rows, ending == 1);
        std::mem::take(&mut *self.ledger.counts.lock().unwrap())
    }

    fn first_process(&self, process: &Arc<Process>, ending: u64) -> Arc<Mutex<Vec<Promise>>> {
        let runtime = runtime();
        let engine = self.engine(process);
        let promises = Arc::<Mutex<Vec<Promise>>>::default();
        let (given, at_work) = (promises.clone(), process.clone());
        runtime.block_on(async {
            let work = tokio::spawn(async move {
                let jobs = engine.jobs.get().unwrap().clone();
                let clients = 3 + at_work.below(5);
                let calls = (0..clients).map(|n| {
                    let (engine, jobs, process, given) =
                        (engine.clone(), jobs.clone(), at_work.clone(), given.clone());
                    tokio::spawn(async move { client(n, &engine, &jobs, &process, &given).await })
                });
                let calls: Vec<_> = calls.collect();
                let answering = tokio::spawn(answer_all(jobs.clone()));
                if ending == 1 {
                    tokio::time::sleep(Duration::from_micros(at_work.below(2500))).await;
                    jobs.shut_down().await;
                    at_work.ledger.count("stopped");
                }
                for call in calls {
                    call.await.unwrap();
                }
                if ending == 2 {
                    until_idle(&jobs).await;
                    all_meet(&engine, &at_work).await;
                    at_work.ledger.count("went on");
                }
                answering.abort();
            });
            tokio::select! {
                worked = tokio::time::timeout(PATIENCE, work) => match worked {
                    Ok(worked) => worked.unwrap(),
                    Err(_) => panic!("it stands still: seed {}, ending {ending}, {:#?}", self.seed, self.rows()),
                },
                () = process.died.notified() => process.ledger.count("crashed"),
            }
        });
        process.die();
        runtime.shutdown_background();
        let (most, forced) = (process.most.load(Ordering::SeqCst), process.forced.load(Ordering::SeqCst));
        assert!(most <= MAX_RUNNING + forced, "{most} ran at once: seed {}", self.seed);
        promises
    }

    /// Goes on with what the first process left, until everything has ended.
    fn second_process(&self, process: &Arc<Process>) -> HashMap<Id, Job> {
        let runtime = runtime();
        let engine = self.engine(process);
        let work = async {
            let jobs = engine.jobs.get().unwrap().clone();
            jobs.spawn_maintenance(&engine);
            let answering = tokio::spawn(answer_all(jobs.clone()));
            until_idle(&jobs).await;
            all_meet(&engine, process).await;
            answering.abort();
        };
        let done = runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await });
        assert!(done.is_ok(), "jobs stand still: seed {}, {:#?}", self.seed, self.rows());
        drop(engine);
        runtime.shutdown_background();
        self.rows()
    }

    fn check(
        &self,
        promises: &Mutex<Vec<Promise>>,
        left: &HashMap<Id, Job>,
        rows: &HashMap<Id, Job>,
        was_stopped: bool,
    ) {
        let (runs, ends) = (self.ledger.runs.lock().unwrap(), self.ledger.ends.lock().unwrap());
        let ran = |id: Id| runs.get(&id).copied().unwrap_or(0);
        let fail = |what: &str, job: &Job| panic!("{what}: seed {}, ran {}, {job:?}", self.seed, ran(job.id));
        let promises = promises.lock().unwrap();
        let of = |promise: &Promise| promise.job.map(|(id, _)| id);
        let is_cancelled = |id: Id| promises.iter().any(|one| one.is_cancelled && of(one) == Some(id));
        for promise in promises.iter() {
            let Some((id, shown)) = promise.job else { continue };
            let Some(job) = rows.get(&id) else { panic!("job {id} is lost: seed {}", self.seed) };
            if shown.is_finished() && shown != job.state {
                fail("it was shown as ended, and ended again", job);
            }
            if job.state == JobState::Cancelled && !is_cancelled(id) && !was_stopped && promise.call == id {
                fail("nobody cancelled it", job);
            }
            assert!(promise.tool == job.tool, "the job of another call: seed {}", self.seed);
        }
        for job in rows.values() {
            if !job.state.is_finished() {
                fail("it never ended", job);
            }
            if ends.get(&job.id).is_some_and(|ends| *ends != 1) {
                fail("it ended more than once", job);
            }
            let tries = if job.arguments.bytes()[..] == *b"5" { 2 } else { 1 };
            let processes = if job.repeatable { 2 } else { 1 };
            if ran(job.id) > tries * processes {
                fail("it ran too often", job);
            }
            if job.state == JobState::Complete && ran(job.id) == 0 {
                fail("it never ran", job);
            }
            if was_stopped && job.state == JobState::Unknown {
                fail("a stopped server knows what it did", job);
            }
            let was = left.get(&job.id).map(|job| (job.state, job.cancel_requested));
            if was == Some((JobState::Pending, false)) {
                self.ledger.count("taken over");
                if ran(job.id) == 0 {
                    fail("it was pending, and was not started", job);
                }
            }
        }
    }

    fn rows(&self) -> HashMap<Id, Job> {
        let jobs = memory::Jobs(self.memory.clone());
        let list = jobs.list(JobFilter { limit: 1000, ..JobFilter::default() });
        let jobs = futures_util::FutureExt::now_or_never(list).unwrap().unwrap();
        jobs.into_iter().map(|job| (job.id, job)).collect()
    }

    fn engine(&self, process: &Arc<Process>) -> Engine {
        let candidates = TOOLS.map(|(name, is_repeatable)| {
            let mut spec = spec();
            spec.name = ToolName::parse(name).unwrap();
            spec.exposed = ExposedName::parse(name.rsplit('.').next().unwrap()).unwrap();
            spec.timing = Timing::AsyncShort;
            spec.limits.timeout = Duration::from_secs(60);
            spec.behavior.retry = Some(Retry { attempts: 2, backoff: Duration::ZERO });
            spec.annotations = Annotations { idempotent: Some(is_repeatable), ..Annotations::default() };
            let (limiter, runner) =
                (Arc::new(ToolLimiter::new(&spec.behavior)), Box::new(Worker(process.clone())));
            let entry = Entry { spec, runner, input: None, output: None, cache_key: None, limiter };
            Candidate { entry: Arc::new(entry), enabled: true }
        });
        let (folder, memory, process) = (self.folder.to_owned(), self.memory.clone(), process.clone());
        let clock = FakeClock::at(1_000_000);
        let jobs = LazyJobs::new({
            let clock = clock.clone();
            move || {
                let options = Options {
                    max_running: MAX_RUNNING,
                    max_attempts: 100,
                    maintenance_interval: Duration::from_millis(1),
                    ..Options::default()
                };
                let store = FaultyStore { inner: memory::Jobs(memory.clone()), process: process.clone() };
                let parts = Parts {
                    store: Arc::new(store),
                    events: Arc::new(memory::Events(memory.clone())),
                    codec: Arc::new(PlainCodec),
                    arguments: Arc::new(ByArguments),
                    clock: clock.clone(),
                    options: options.into(),
                };
                Ok(Jobs::open(&folder, new_id(&SystemClock, &SystemRandom), parts)?)
            }
        });
        Engine {
            registry: Arc::new(Registry::new(Snapshot::build(candidates.into(), Vec::new()))),
            rate_limits: Lazy::unavailable(),
            call_limit: CallLimit::default(),
            audit: Arc::new(TestAudit::default()),
            cache: Cache::new(Box::new(memory::Cache::default()), Default::default(), clock.clone()),
            redactor: Arc::new(NoopRedactor),
            jobs,
            clock,
            random: Arc::new(SystemRandom),
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Calls a tool, and perhaps leaves before the answer or cancels the job.
async fn client(
    n: u64,
    engine: &Engine,
    jobs: &Jobs,
    process: &Arc<Process>,
    promises: &Mutex<Vec<Promise>>,
) {
    let (tool, _) = TOOLS[process.below(2) as usize];
    let work = process.below(WORKS.len() as u64);
    let call = Call {
        wait: if process.below(2) == 0 { Wait::NoWait } else { Wait::AsDeclared },
        idempotency_key: (process.below(3) == 0).then(|| format!("key {work}")),
        ..Call::new(new_id(&SystemClock, &SystemRandom), tool, Payload::json(work.to_string()), Edge::Cli)
    };
    let id = call.id;
    let answering = Answering(process.clone());
    let caller: &dyn Caller = if n.is_multiple_of(2) { &NoopCaller } else { &answering };
    let left = async {
        if process.below(3) == 0 {
            tokio::time::sleep(Duration::from_micros(process.below(800))).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    let outcome = tokio::select! {
        outcome = engine.run(call, caller) => outcome,
        () = left => return process.ledger.count("left"),
    };
    let is_cancelled = process.below(4) == 0;
    promises.lock().unwrap().push(Promise { call: id, job: outcome.meta.job, tool, is_cancelled });
    if let (true, Some((job, _))) = (is_cancelled, outcome.meta.job) {
        let _ = jobs.cancel(job, &Identity::local()).await;
    }
}

/// Answers the questions of jobs whose callers do not wait.
async fn answer_all(jobs: Arc<Jobs>) {
    loop {
        let open = JobFilter { states: vec![JobState::InputRequired], limit: 100, ..JobFilter::default() };
        for job in jobs.list(open).await.unwrap() {
            for question in jobs.questions(job.id) {
                jobs.answer(job.id, &question.key, InputResponse(Payload::json("1")));
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn until_idle(jobs: &Jobs) {
    loop {
        let counts = jobs.store().count(None).await.unwrap();
        if counts.iter().all(|(state, _)| state.is_finished()) {
            return;
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
}

/// As many jobs as may run meet: none of the permits was lost.
async fn all_meet(engine: &Engine, process: &Process) {
    process.full.store(0, Ordering::SeqCst);
    let meet = || {
        let id = new_id(&SystemClock, &SystemRandom);
        engine.run(Call::new(id, TOOLS[1].0, Payload::json("9"), Edge::Cli), &NoopCaller)
    };
    let met = futures_util::future::join_all((0..MAX_RUNNING).map(|_| meet()));
    let began = Instant::now();
    for outcome in met.await {
        assert!(outcome.error().is_none(), "{outcome:?} after {:?}", began.elapsed());
    }
}
