//! Jobs over the in-memory stores, with scripted tools.

use crate::{AsIs, FakeClock, TempDir, Trace, call, spec};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use toolyard_engine::cache::Cache;
use toolyard_engine::clock::{Clock, SystemClock, SystemRandom, new_id};
use toolyard_engine::jobs::{Jobs, LazyJobs, Options, Parts, SteadyClock};
use toolyard_engine::stores::{
    Created, Durability, JobEnd, JobFilter, JobStore, Lease, NewJob, Recovered, StoreFuture, UpdateResult,
};
use toolyard_engine::{
    CallLimit, Candidate, Engine, Entry, Registry, Run, RunFuture, Runner, Snapshot, ToolLimiter,
};
use toolyard_protocol::{
    Annotations, Call, Caller, Digest, Error, ErrorKind, Id, Identity, InputFuture, InputRequest,
    InputRequestBody, InputResponse, Job, JobState, LogLevel, LogLine, NoopCaller, Outcome, OutcomeCodec,
    Payload, Progress, Redactor, Status, Timestamp, Timing, Wait,
};
use toolyard_store::FileAuditLog;
use toolyard_store::suite::memory::{self, Memory};

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

type Script = Box<dyn Fn(&str) -> Vec<Step> + Send + Sync>;

/// A step of a scripted tool.
enum Step {
    Progress(f64),
    Log(&'static str),
    Ask(&'static str),
    Detach,
    /// Never ends.
    Hang,
}

struct Scripted(Script);

impl Runner for Scripted {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        Box::pin(async move {
            let arguments = std::str::from_utf8(run.call.arguments.bytes()).unwrap().to_owned();
            let mut answers = Vec::new();
            for step in (self.0)(&arguments) {
                match step {
                    Step::Progress(done) => {
                        run.caller.progress(Progress { done, total: None, message: None })
                    }
                    Step::Log(text) => run.caller.log(LogLine {
                        level: LogLevel::Info,
                        logger: None,
                        data: Payload::json(format!("\"{text}\"")),
                    }),
                    Step::Ask(key) => {
                        let body = InputRequestBody::Elicit(Payload::json("{}"));
                        let InputResponse(answer) =
                            run.caller.request_input(InputRequest { key: key.into(), body }).await?;
                        answers.push(String::from_utf8(answer.bytes().to_vec()).unwrap());
                    }
                    Step::Detach => run.caller.detach(),
                    Step::Hang => std::future::pending().await,
                }
            }
            Ok(Outcome::success(Some(Payload::json(format!("[{}]", answers.join(","))))))
        })
    }
}

struct World {
    /// Removed on drop.
    _folder: TempDir,
    engine: Engine,
    fake_clock: Arc<FakeClock>,
    synced: Arc<AtomicU64>,
}

fn world(
    timing: Timing,
    options: Options,
    script: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static,
) -> World {
    let folder = TempDir::new();
    let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
    let audit =
        FileAuditLog::open(folder.path(), Default::default(), clock.clone(), random.clone(), Arc::new(AsIs))
            .unwrap();
    let cache = Cache::new(Box::new(memory::Cache::default()), Default::default(), clock.clone());
    let mut spec = spec();
    spec.timing = timing;
    spec.limits.timeout = Duration::from_secs(60);
    spec.annotations = Annotations { idempotent: Some(true), ..Annotations::default() };
    spec.digest = Digest([1; 32]);
    let limiter = Arc::new(ToolLimiter::new(&spec.behavior));
    let runner = Box::new(Scripted(Box::new(script)));
    let entry = Entry { spec, runner, input: None, output: None, cache_key: None, limiter };
    let candidate = Candidate { entry: Arc::new(entry), enabled: true };
    let registry = Arc::new(Registry::new(Snapshot::build(vec![candidate], Vec::new())));
    let fake_clock = FakeClock::at(1_000_000);
    let memory = Memory::new(1000);
    let synced = Arc::new(AtomicU64::new(0));
    let (state, job_clock, counted) = (folder.path().to_owned(), fake_clock.clone(), synced.clone());
    let jobs = LazyJobs::new(move || {
        let parts = Parts {
            store: Arc::new(Counting {
                inner: memory::Jobs(memory.clone()),
                synced: counted.clone(),
                trace: Trace::default(),
            }),
            events: Arc::new(memory::Events(memory.clone())),
            codec: Arc::new(PlainCodec),
            clock: job_clock.clone(),
            options: options.clone(),
        };
        Ok(Jobs::open(&state, new_id(&SystemClock, &SystemRandom), parts)?)
    });
    let redactor = Arc::new(HushRedactor);
    World {
        _folder: folder,
        engine: Engine {
            registry,
            rate_limits: toolyard_engine::Lazy::unavailable(),
            audit,
            cache,
            redactor,
            jobs,
            call_limit: CallLimit::default(),
            clock,
            random,
        },
        fake_clock,
        synced,
    }
}

fn detached(arguments: &'static str) -> Call {
    Call { wait: Wait::NoWait, ..call(arguments) }
}

impl World {
    fn jobs(&self) -> &Arc<Jobs> {
        self.engine.jobs.get().unwrap()
    }

    async fn start(&self, arguments: &'static str) -> Id {
        let outcome = self.engine.run(detached(arguments), &NoopCaller).await;
        outcome.meta.job.unwrap_or_else(|| panic!("no job: {outcome:?}")).0
    }

    async fn over(&self, id: Id) -> Job {
        self.jobs().wait(id, &Identity::local(), Duration::from_secs(10)).await.unwrap()
    }
}

#[tokio::test]
async fn a_secret_in_the_arguments_is_not_stored_and_the_job_is_not_repeated() {
    let world = world(Timing::AsyncLong, Options::default(), |_| vec![Step::Hang]);
    let id = world.start(r#"{"password":"hush"}"#).await;
    let job = world.jobs().get(id, &Identity::local()).await.unwrap();
    assert_eq!(&job.arguments.bytes()[..], br#"{"password":"[x]"}"#);
    assert!(!job.repeatable && job.state == JobState::Running);
    let plain = world.start("{}").await;
    assert!(world.jobs().get(plain, &Identity::local()).await.unwrap().repeatable);
    world.jobs().shut_down().await;
}

#[tokio::test]
async fn a_question_stays_open_until_it_is_answered() {
    let world = world(Timing::AsyncLong, Options::default(), |_| vec![Step::Ask("name"), Step::Ask("age")]);
    let id = world.start("{}").await;
    for (key, answer) in [("name", "\"Ada\""), ("age", "36")] {
        while world.jobs().questions(id).is_empty() {
            let job = world.jobs().get(id, &Identity::local()).await.unwrap();
            assert!(!job.state.is_finished(), "it ended as {:?}", job.state);
            tokio::task::yield_now().await;
        }
        assert_eq!(world.jobs().questions(id)[0].key, key);
        assert_eq!(world.jobs().get(id, &Identity::local()).await.unwrap().state, JobState::InputRequired);
        assert!(!world.jobs().answer(id, "other", InputResponse(Payload::json("0"))));
        assert!(world.jobs().answer(id, key, InputResponse(Payload::json(answer))));
    }
    let job = world.over(id).await;
    assert_eq!(job.state, JobState::Complete);
    assert_eq!(&job.outcome.unwrap().bytes()[..], br#"success|["Ada",36]"#);
}

/// Records every update and answers every question.
struct Listener(mpsc::UnboundedSender<String>);

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

#[tokio::test]
async fn a_waiting_caller_gets_all_updates_and_questions() {
    let world = world(Timing::AsyncShort, Options::default(), |_| {
        vec![Step::Progress(10.0), Step::Log("working"), Step::Ask("sure"), Step::Progress(90.0)]
    });
    let (sender, mut updates) = mpsc::unbounded_channel();
    let outcome = world.engine.run(call("{}"), &Listener(sender)).await;
    assert_eq!(&outcome.data().unwrap().bytes()[..], b"[true]");
    assert_eq!(outcome.meta.job.map(|(_, state)| state), Some(JobState::Complete));
    let mut received = Vec::new();
    while let Ok(update) = updates.try_recv() {
        received.push(update);
    }
    assert_eq!(received, ["progress 10", "log \"working\"", "asked sure", "progress 90"]);
}

#[tokio::test]
async fn a_caller_that_waits_until_the_detach_is_asked_before_it_and_not_after() {
    let script = || vec![Step::Ask("sure"), Step::Detach, Step::Ask("later")];
    let world = world(Timing::AsyncLong, Options::default(), move |_| script());
    let (sender, mut updates) = mpsc::unbounded_channel();
    let outcome = world.engine.run(Call { wait: Wait::UntilDetached, ..call("{}") }, &Listener(sender)).await;
    let (id, state) = outcome.meta.job.unwrap();
    assert!(!state.is_finished(), "{state:?}");
    assert_eq!(updates.try_recv().unwrap(), "asked sure");
    while world.jobs().questions(id).is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(updates.try_recv().is_err(), "asked after the detach");
    assert!(world.jobs().answer(id, "later", InputResponse(Payload::json("2"))));
    assert_eq!(&world.over(id).await.outcome.unwrap().bytes()[..], b"success|[true,2]");
    // A caller that waits until the end is asked every question.
    let (sender, mut updates) = mpsc::unbounded_channel();
    let outcome = world.engine.run(Call { wait: Wait::UntilDone, ..call("{}") }, &Listener(sender)).await;
    assert_eq!(&outcome.data().unwrap().bytes()[..], b"[true,true]");
    assert_eq!([updates.try_recv().unwrap(), updates.try_recv().unwrap()], ["asked sure", "asked later"]);
}

/// Counts the synced changes, and records when rows are written.
pub struct Counting {
    pub inner: memory::Jobs,
    pub synced: Arc<AtomicU64>,
    pub trace: Trace,
}

impl Counting {
    fn count_synced(&self, durability: Durability) {
        self.synced.fetch_add(u64::from(durability == Durability::Synced), Ordering::SeqCst);
    }
}

impl JobStore for Counting {
    fn create(&self, new: NewJob) -> StoreFuture<'_, Created> {
        self.count_synced(Durability::Synced);
        self.trace.add("job create");
        self.inner.create(new)
    }

    fn start(&self, lease: Lease, now: Timestamp, durability: Durability) -> StoreFuture<'_, UpdateResult> {
        self.count_synced(durability);
        self.trace.add("job start");
        self.inner.start(lease, now, durability)
    }

    fn progress(&self, lease: Lease, progress: Progress, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.inner.progress(lease, progress, now)
    }

    fn set_waiting(&self, lease: Lease, waiting: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.inner.set_waiting(lease, waiting, now)
    }

    fn finish(&self, lease: Lease, ending: JobEnd, durability: Durability) -> StoreFuture<'_, UpdateResult> {
        self.count_synced(durability);
        self.trace.add("job finish");
        self.inner.finish(lease, ending, durability)
    }

    fn cancel(&self, id: Id, now: Timestamp) -> StoreFuture<'_, JobState> {
        self.inner.cancel(id, now)
    }

    fn take_over(&self, from: Id, to: Id, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Recovered>> {
        self.inner.take_over(from, to, now, limit)
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

#[tokio::test]
async fn a_waiting_caller_pays_for_one_synced_change_and_a_later_fetch_for_two() {
    for (timing, expected) in [(Timing::AsyncShort, 1), (Timing::AsyncMedium, 1), (Timing::AsyncLong, 2)] {
        let world = world(timing, Options::default(), |_| Vec::new());
        let outcome = world.engine.run(call("{}"), &NoopCaller).await;
        world.over(outcome.meta.job.unwrap().0).await;
        assert_eq!(world.synced.load(Ordering::SeqCst), expected, "{timing:?}");
    }
}

#[tokio::test]
async fn too_many_open_jobs_of_one_caller_are_refused_and_others_queue() {
    let options = Options { max_open_of_caller: 3, max_running: 1, ..Options::default() };
    let world = world(Timing::AsyncLong, options, |_| vec![Step::Hang]);
    let ids = [world.start("{}").await, world.start("{}").await, world.start("{}").await];
    let refused = world.engine.run(detached("{}"), &NoopCaller).await;
    assert_eq!(refused.error().unwrap().kind, ErrorKind::Busy);
    let state = async |id| world.jobs().get(id, &Identity::local()).await.unwrap().state;
    assert_eq!((state(ids[0]).await, state(ids[1]).await), (JobState::Running, JobState::Pending));
    assert_eq!(world.jobs().cancel(ids[0], &Identity::local()).await.unwrap(), JobState::Cancelled);
    while state(ids[1]).await != JobState::Running {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.jobs().cancel(ids[2], &Identity::local()).await.unwrap(), JobState::Cancelled);
    world.jobs().shut_down().await;
}

#[tokio::test]
async fn another_callers_job_is_not_found() {
    let world = world(Timing::AsyncLong, Options::default(), |_| Vec::new());
    let id = world.start("{}").await;
    let stranger = Identity::new("stranger");
    assert_eq!(world.jobs().get(id, &stranger).await.unwrap_err().kind, ErrorKind::ResourceNotFound);
    assert_eq!(world.jobs().cancel(id, &stranger).await.unwrap_err().kind, ErrorKind::ResourceNotFound);
}

#[tokio::test]
async fn jobs_are_removed_when_they_expire_and_not_before() {
    let world = world(Timing::AsyncShort, Options::default(), |_| Vec::new());
    let outcome = world.engine.run(call("{}"), &NoopCaller).await;
    let id = outcome.meta.job.unwrap().0;
    let keep = Options::default().keep_short.as_millis() as u64;
    for (later, exists) in [(keep - 1, true), (2, false)] {
        world.fake_clock.0.fetch_add(later, Ordering::SeqCst);
        world.jobs().remove_expired().await.unwrap();
        assert_eq!(world.jobs().get(id, &Identity::local()).await.is_ok(), exists);
    }
}

#[test]
fn the_steady_clock_does_not_follow_jumps_of_the_wall_clock() {
    let folder = TempDir::new();
    let at = |ms: u64| FakeClock::at(ms) as Arc<dyn Clock>;
    let day = 24 * 60 * 60 * 1000;
    let first = SteadyClock::open(folder.path(), &at(10 * day));
    for jumped in [11 * day, 9 * day, 10 * day] {
        let later = SteadyClock::open(folder.path(), &at(jumped));
        let apart = later.now().unix_ms().abs_diff(first.now().unix_ms());
        assert!(apart < 10_000, "{apart} ms apart after a jump to {jumped}");
    }
    // Another boot of the machine starts anew.
    std::fs::write(folder.path().join("steady-clock"), "another-boot 5 5\n").unwrap();
    assert!(SteadyClock::open(folder.path(), &at(20 * day)).now().unix_ms() >= 20 * day);
}
