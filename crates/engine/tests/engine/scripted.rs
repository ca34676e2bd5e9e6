//! The fixture of most tests: an engine with one scripted tool over the stores in memory.

use crate::{FakeClock, TempDir, Trace, call, spec};
use futures_util::future::join_all;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use toolyard_engine::cache::Cache;
use toolyard_engine::clock::{SystemClock, SystemRandom, new_id};
use toolyard_engine::jobs::{Jobs, LazyJobs, Options, Parts, SharedOptions};
use toolyard_engine::stores::LimitStore;
use toolyard_engine::{
    AuditFuture, AuditLog, CallLimit, Candidate, Engine, Entry, Lazy, OpenRecord, Registry, Run, RunFuture,
    Runner, Snapshot, Tasks, ToolLimiter,
};
use toolyard_protocol::{
    Annotations, CacheKey, Call, Caller, Digest, Error, ErrorKind, Id, Identity, InputFuture, InputRequest,
    InputRequestBody, InputResponse, Job, JobState, LogLevel, LogLine, NoopCaller, Outcome, OutcomeCodec,
    Payload, Progress, Redactor, Status, Timing, ToolSpec, Wait,
};
use toolyard_store::suite::memory::{self, Memory};

pub use crate::test_store::TestStore;

/// Encodes only the status and data of an outcome, which is all these tests check.
pub struct PlainCodec;

impl OutcomeCodec for PlainCodec {
    fn write(&self, outcome: &Outcome) -> Payload {
        let data = outcome.data().map_or(&b"null"[..], |data| data.bytes());
        Payload::json([outcome.status().as_str().as_bytes(), b"|", data].concat())
    }

    fn read(&self, payload: &Payload) -> Result<Outcome, Error> {
        let text = std::str::from_utf8(payload.bytes()).unwrap();
        let (status, data) = text.split_once('|').unwrap();
        let error = || Error::new(ErrorKind::ToolFailed, "it failed");
        Ok(match Status::parse(status).unwrap() {
            Status::Failure => Outcome::failure(error()),
            _ => Outcome::success(Some(Payload::json(data.to_owned()))),
        })
    }
}

/// Redacts the word `hush`.
struct HushRedactor;

impl Redactor for HushRedactor {
    fn text(&self, text: &str) -> Option<String> {
        text.contains("hush").then(|| text.replace("hush", "[x]"))
    }

    fn payload(&self, payload: &Payload) -> Option<Payload> {
        self.text(std::str::from_utf8(payload.bytes()).unwrap()).map(Payload::json)
    }
}

/// A step of a scripted tool.
pub enum Step {
    Progress(f64),
    Log(&'static str),
    Ask(&'static str),
    /// Asks, and writes so many log lines before the answer.
    AskAndLog(&'static str, usize),
    /// Asks, and withdraws the question after 20 ms; the other question stays open.
    Withdraw(&'static str, Option<&'static str>),
    LogAll(Vec<String>),
    Panic,
    /// Asks questions with these keys at once.
    AskAll(Vec<String>),
    Detach,
    /// Announces the start of the work.
    Begin,
    Sleep(Duration),
    Fail(ErrorKind),
    Return(Box<Outcome>),
    /// Never ends.
    Hang,
}

pub fn returns(outcome: &Outcome) -> Vec<Step> {
    vec![Step::Return(Box::new(outcome.clone()))]
}

/// What the tool was given.
pub struct Seen {
    pub call: Call,
    pub at: Instant,
    /// The time from the start of the run to its deadline.
    pub time_left: Duration,
}

type Script = Box<dyn Fn(&str) -> Vec<Step> + Send + Sync>;

struct Scripted {
    script: Script,
    announces_start: bool,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Runner for Scripted {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        Box::pin(async move {
            let time_left = run.deadline.saturating_duration_since(std::time::Instant::now());
            self.seen.lock().unwrap().push(Seen { call: run.call.clone(), at: Instant::now(), time_left });
            let arguments = std::str::from_utf8(run.call.arguments.bytes()).unwrap().to_owned();
            let mut answers = Vec::new();
            for step in (self.script)(&arguments) {
                match step {
                    Step::Progress(done) => {
                        run.caller.progress(Progress { done, total: None, message: None })
                    }
                    Step::Log(text) => log(run.caller, text),
                    Step::Ask(key) => answers.push(ask(run.caller, key.to_owned()).await?),
                    Step::AskAll(keys) => {
                        let all = join_all(keys.into_iter().map(|key| ask(run.caller, key))).await;
                        answers.extend(all.into_iter().collect::<Result<Vec<_>, _>>()?);
                    }
                    Step::AskAndLog(key, lines) => {
                        let talk = async {
                            for _ in 0..lines {
                                log(run.caller, "line");
                            }
                        };
                        let (answer, ()) = tokio::join!(ask(run.caller, key.to_owned()), talk);
                        answers.push(answer?);
                    }
                    Step::Withdraw(key, other) => {
                        let asked = ask(run.caller, key.to_owned());
                        let brief = tokio::time::timeout(Duration::from_millis(20), asked);
                        let others = join_all(other.map(|key| ask(run.caller, key.to_owned())));
                        let (_, others) = tokio::join!(brief, others);
                        answers.extend(others.into_iter().collect::<Result<Vec<_>, _>>()?);
                    }
                    Step::LogAll(lines) => lines.iter().for_each(|line| log(run.caller, line)),
                    Step::Panic => panic!("planned"),
                    Step::Detach => run.caller.detach(),
                    Step::Begin => run.caller.begin_work()?,
                    Step::Sleep(duration) => tokio::time::sleep(duration).await,
                    Step::Fail(kind) => return Err(Error::new(kind, "the tool failed")),
                    Step::Return(outcome) => return Ok(*outcome),
                    Step::Hang => std::future::pending().await,
                }
            }
            Ok(Outcome::success(Some(Payload::json(format!("[{}]", answers.join(","))))))
        })
    }

    fn announces_start(&self) -> bool {
        self.announces_start
    }
}

fn log(caller: &dyn Caller, text: &str) {
    let data = Payload::json(format!("\"{text}\""));
    caller.log(LogLine { level: LogLevel::Info, logger: None, data });
}

async fn ask(caller: &dyn Caller, key: String) -> Result<String, Error> {
    let body = InputRequestBody::Elicit(Payload::json("{}"));
    let InputResponse(answer) = caller.request_input(InputRequest { key, body }).await?;
    Ok(String::from_utf8(answer.bytes().to_vec()).unwrap())
}

/// An audit log in memory. It can be full.
#[derive(Default)]
pub struct TestAudit {
    /// The calls that began.
    pub begun: Mutex<Vec<Call>>,
    pub ended: Mutex<Vec<Outcome>>,
    pub refused: Mutex<Vec<Error>>,
    /// So many calls cannot begin.
    pub full_for: AtomicU64,
    /// No end can be written.
    pub full_at_end: AtomicBool,
    /// So long takes the record of an end.
    pub end_takes: Mutex<Duration>,
}

fn disk_full() -> Error {
    Error::new(ErrorKind::Unavailable, "the audit log is full")
}

impl AuditLog for TestAudit {
    fn begin<'a>(self: Arc<Self>, call: &'a Call, _: &'a ToolSpec) -> AuditFuture<'a, Box<dyn OpenRecord>> {
        Box::pin(async move {
            let less = self.full_for.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
            if less.is_ok() {
                return Err(disk_full());
            }
            self.begun.lock().unwrap().push(call.clone());
            Ok(Box::new(Record(self)) as Box<dyn OpenRecord>)
        })
    }

    fn refused<'a>(&'a self, _: &'a Call, error: &'a Error) -> AuditFuture<'a, ()> {
        self.refused.lock().unwrap().push(error.clone());
        Box::pin(std::future::ready(Ok(())))
    }

    fn close(&self) {}
}

struct Record(Arc<TestAudit>);

impl OpenRecord for Record {
    fn end<'a>(self: Box<Self>, outcome: &'a Outcome) -> AuditFuture<'a, ()> {
        Box::pin(async move {
            pass(&self.0.end_takes).await;
            self.0.ended.lock().unwrap().push(outcome.clone());
            let full = self.0.full_at_end.load(Ordering::SeqCst);
            if full { Err(disk_full()) } else { Ok(()) }
        })
    }

    fn end_job<'a>(self: Box<Self>, outcome: &'a Outcome) -> AuditFuture<'a, ()> {
        self.end(outcome)
    }
}

/// Waits so long, if at all.
pub async fn pass(time: &Mutex<Duration>) {
    let time = *time.lock().unwrap();
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// The arguments without their spaces are the key.
pub struct ByArguments;

impl CacheKey for ByArguments {
    fn key(&self, arguments: &Payload) -> Result<Vec<u8>, Error> {
        Ok(arguments.bytes().iter().copied().filter(|byte| *byte != b' ').collect())
    }
}

/// How the engine and its tool are set up.
pub struct Setup {
    pub spec: ToolSpec,
    pub options: Options,
    pub is_cached: bool,
    /// The capacity of the event log.
    pub ring: u64,
    /// The script has [`Step::Begin`].
    pub announces_start: bool,
}

/// A tool that is safe to repeat and has a minute to run.
pub fn setup(timing: Timing) -> Setup {
    let mut spec = spec();
    spec.timing = timing;
    spec.limits.timeout = Duration::from_secs(60);
    spec.annotations = Annotations { idempotent: Some(true), ..Annotations::default() };
    spec.digest = Digest([1; 32]);
    Setup { spec, options: Options::default(), is_cached: false, ring: 1000, announces_start: false }
}

pub struct World {
    pub folder: TempDir,
    pub engine: Engine,
    pub clock: Arc<FakeClock>,
    pub memory: Memory,
    pub store: Arc<TestStore>,
    pub audit: Arc<TestAudit>,
    /// The runs of the tool, in order.
    pub seen: Arc<Mutex<Vec<Seen>>>,
    pub options: SharedOptions,
}

impl Setup {
    pub fn build(self, script: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> World {
        let Setup { spec, options, is_cached, ring, announces_start } = self;
        let (folder, clock, memory) = (TempDir::new(), FakeClock::at(1_000_000), Memory::new(ring));
        let (store, audit) = (TestStore::new(&memory, Trace::default()), Arc::new(TestAudit::default()));
        let (seen, options) = (Arc::<Mutex<Vec<Seen>>>::default(), SharedOptions::from(options));
        let limiter = Arc::new(ToolLimiter::new(&spec.behavior));
        let runner = Box::new(Scripted { script: Box::new(script), announces_start, seen: seen.clone() });
        let cache_key = is_cached.then(|| Box::new(ByArguments) as Box<dyn CacheKey>);
        let entry = Entry { spec, runner, input: None, output: None, cache_key, limiter };
        let candidate = Candidate { entry: Arc::new(entry), enabled: true };
        let limits = Arc::new(memory::Limits::default()) as Arc<dyn LimitStore>;
        let engine = Engine {
            registry: Arc::new(Registry::new(Snapshot::build(vec![candidate], Vec::new()))),
            rate_limits: Lazy::new(move || Ok(limits.clone())),
            call_limit: CallLimit::default(),
            audit: audit.clone(),
            cache: Cache::new(Box::new(memory::Cache::default()), Default::default(), clock.clone()),
            redactor: Arc::new(HushRedactor),
            jobs: job_service(folder.path(), &store, &memory, &clock, &options),
            clock: clock.clone(),
            random: Arc::new(SystemRandom),
        };
        World { folder, engine, clock, memory, store, audit, seen, options }
    }
}

fn job_service(
    folder: &Path,
    store: &Arc<TestStore>,
    memory: &Memory,
    clock: &Arc<FakeClock>,
    options: &SharedOptions,
) -> LazyJobs {
    let (folder, store, memory) = (folder.to_owned(), store.clone(), memory.clone());
    let (clock, options) = (clock.clone(), options.clone());
    LazyJobs::new(move || {
        let parts = Parts {
            store: store.clone(),
            events: Arc::new(memory::Events(memory.clone())),
            codec: Arc::new(PlainCodec),
            arguments: Arc::new(ByArguments),
            clock: clock.clone(),
            options: options.clone(),
        };
        Ok(Jobs::open(&folder, new_id(&SystemClock, &SystemRandom), parts)?)
    })
}

/// A call that does not wait for its job.
pub fn detached(arguments: &'static str) -> Call {
    Call { wait: Wait::NoWait, ..call(arguments) }
}

pub fn keyed(call: Call) -> Call {
    Call { idempotency_key: Some("k".into()), ..call }
}

impl World {
    pub fn jobs(&self) -> &Arc<Jobs> {
        self.engine.jobs.get().unwrap()
    }

    pub fn tasks(&self) -> &dyn Tasks {
        &self.engine.jobs
    }

    /// The engine of another process on the same state.
    pub fn another_process(&self) -> Engine {
        let jobs = job_service(self.folder.path(), &self.store, &self.memory, &self.clock, &self.options);
        Engine { jobs, ..self.engine.clone() }
    }

    pub async fn run(&self, call: Call) -> Outcome {
        self.engine.run(call, &NoopCaller).await
    }

    pub async fn start(&self, arguments: &'static str) -> Id {
        let outcome = self.run(detached(arguments)).await;
        outcome.meta.job.unwrap_or_else(|| panic!("no job: {outcome:?}")).0
    }

    pub async fn job(&self, id: Id) -> Job {
        self.jobs().get(id, &Identity::local()).await.unwrap()
    }

    /// Waits until the job is in this state.
    pub async fn reach(&self, id: Id, state: JobState) {
        until(async || self.job(id).await.state == state).await;
    }

    pub async fn over(&self, id: Id) -> Job {
        self.jobs().wait(id, &Identity::local(), Duration::from_secs(10)).await.unwrap()
    }

    pub fn runs(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

/// Runs one case of several in a runtime of its own: deadlines are real times, so a runtime whose clock has been
/// advanced is ahead of them.
pub fn in_paused_time(case: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(case);
}

/// Waits for a condition that other tasks bring about.
pub async fn until(condition: impl AsyncFn() -> bool) {
    let started = std::time::Instant::now();
    while !condition().await {
        assert!(started.elapsed() < Duration::from_secs(5), "it does not happen");
        tokio::task::yield_now().await;
    }
}

/// Records every update and answers every question.
pub struct Listener(mpsc::UnboundedSender<String>);

pub fn listener() -> (Listener, mpsc::UnboundedReceiver<String>) {
    let (sender, updates) = mpsc::unbounded_channel();
    (Listener(sender), updates)
}

/// What has been received so far.
pub fn received(updates: &mut mpsc::UnboundedReceiver<String>) -> Vec<String> {
    std::iter::from_fn(|| updates.try_recv().ok()).collect()
}

impl Caller for Listener {
    fn progress(&self, progress: Progress) {
        let _ = self.0.send(format!("progress {}", progress.done));
    }

    fn log(&self, line: LogLine) {
        let _ = self.0.send(format!("log {}", String::from_utf8_lossy(line.data.bytes())));
    }

    fn request_input(&self, question: InputRequest) -> InputFuture<'_> {
        let _ = self.0.send(format!("asked {}", question.key));
        Box::pin(std::future::ready(Ok(InputResponse(Payload::json("true")))))
    }
}
