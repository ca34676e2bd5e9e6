//! The order of the gates, observed on real calls of every kind: each dependency of a gate records its use.

use crate::scripted::{PlainCodec, TestStore};
use crate::{TempDir, Trace, call, spec};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use toolyard_engine::cache::Cache;
use toolyard_engine::clock::{SystemClock, SystemRandom, new_id};
use toolyard_engine::jobs::{Jobs, LazyJobs, Options, Parts};
use toolyard_engine::resources::GatedResources;
use toolyard_engine::stores::{CacheRow, CacheStore, JobStore, LimitStore, NewJob, StoreFuture};
use toolyard_engine::{
    AuditFuture, AuditLog, CallLimit, Candidate, Engine, Entry, Lazy, NoResources, OpenRecord, Registry,
    RequestContext, RequestFuture, ResourceChange, Resources, Run, RunFuture, Runner, Snapshot, ToolLimiter,
    WatchGuard,
};
use toolyard_protocol::batch::{Action, Batch, Step, StepArguments};
use toolyard_protocol::{
    Annotations, Body, CacheKey, Call, Check, Completion, CompletionRequest, Edge, Error, ErrorKind, Id,
    Identity, JobState, NoopCaller, Outcome, Page, Payload, Rate, ReadResult, Redactor, Resource,
    ResourceContents, ResourceTemplate, Timestamp, Timing, ToolSpec, Violation, Wait,
};
use toolyard_store::suite::memory::{self, Memory};

const RESULT: &str = r#"{"result":1}"#;

/// Implements every dependency of the gates and records its use.
#[derive(Clone, Default)]
struct Recorder(Trace);

impl LimitStore for Recorder {
    fn take(&self, key: String, _: Rate, _: Timestamp) -> StoreFuture<'_, Option<Duration>> {
        assert_eq!(key, "tool:example.echo");
        self.0.add("rate limit");
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A schema: rejects arguments and results that contain `invalid`, and `job_started` results.
struct Schema(Trace, &'static str);

impl Check for Schema {
    fn check(&self, payload: &Payload) -> Result<(), Vec<Violation>> {
        self.0.add(self.1);
        let text = std::str::from_utf8(payload.bytes()).unwrap();
        match text.contains("invalid") || text.contains("job_id") {
            false => Ok(()),
            true => Err(vec![Violation { pointer: String::new(), message: "it is invalid".into() }]),
        }
    }
}

impl AuditLog for Recorder {
    fn begin<'a>(self: Arc<Self>, _: &'a Call, _: &'a ToolSpec) -> AuditFuture<'a, Box<dyn OpenRecord>> {
        self.0.add("audit begin");
        Box::pin(async move { Ok(Box::new(Recorder(self.0.clone())) as Box<dyn OpenRecord>) })
    }

    fn refused<'a>(&'a self, _: &'a Call, _: &'a Error) -> AuditFuture<'a, ()> {
        self.0.add("audit refused");
        Box::pin(std::future::ready(Ok(())))
    }

    fn close(&self) {}
}

impl OpenRecord for Recorder {
    fn end<'a>(self: Box<Self>, _: &'a Outcome) -> AuditFuture<'a, ()> {
        self.0.add("audit end");
        Box::pin(std::future::ready(Ok(())))
    }

    /// There is no room; the record is written later.
    fn end_job<'a>(self: Box<Self>, _: &'a Outcome) -> AuditFuture<'a, ()> {
        self.0.add("audit end");
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unavailable, "the disk is full"))))
    }
}

impl CacheKey for Recorder {
    fn key(&self, arguments: &Payload) -> Result<Vec<u8>, Error> {
        self.0.add("cache look-up");
        Ok(arguments.bytes().to_vec())
    }
}

/// The store behind the cache.
struct Disk(Trace, memory::Cache);

impl CacheStore for Disk {
    fn get(&mut self, key: &[u8; 32]) -> Option<CacheRow> {
        self.1.get(key)
    }

    fn put(&mut self, key: &[u8; 32], row: CacheRow, max_bytes: u64, oldest: Timestamp) {
        self.0.add("cache store");
        self.1.put(key, row, max_bytes, oldest);
    }
}

impl Runner for Recorder {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        self.0.add("run");
        let arguments = std::str::from_utf8(run.call.arguments.bytes()).unwrap();
        let result = if arguments.contains("bad result") { r#""invalid""# } else { RESULT };
        let hangs = arguments.contains("hang");
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            Ok(Outcome::success(Some(Payload::json(result))))
        })
    }
}

impl Redactor for Recorder {
    fn text(&self, _: &str) -> Option<String> {
        None
    }

    /// Arguments are redacted too, for the audit record; only results are recorded here.
    fn payload(&self, payload: &Payload) -> Option<Payload> {
        if payload.bytes() == RESULT.as_bytes() {
            self.0.add("redact");
        }
        None
    }
}

struct World {
    _folder: TempDir,
    engine: Arc<Engine>,
    trace: Trace,
    memory: Memory,
}

fn rate_limits(recorder: Recorder) -> Lazy<Arc<dyn LimitStore>> {
    Lazy::new(move || Ok(Arc::new(recorder.clone()) as Arc<dyn LimitStore>))
}

/// An engine with one tool that has a rate limit, schemas and a cache key.
fn world(timing: Timing, call_limit: CallLimit) -> World {
    let (folder, trace, memory) = (TempDir::new(), Trace::default(), Memory::new(1000));
    let recorder = Recorder(trace.clone());
    let mut spec = spec();
    (spec.timing, spec.limits.input) = (timing, 64);
    // Longer than a test: a tool that hangs ends only when it is stopped.
    spec.limits.timeout = Duration::from_secs(60);
    spec.annotations = Annotations { idempotent: Some(true), ..Annotations::default() };
    spec.behavior.rate = Some(Rate { calls: 1000, per: Duration::from_secs(1) });
    let limiter = Arc::new(ToolLimiter::new(&spec.behavior));
    let entry = Entry {
        spec,
        runner: Box::new(recorder.clone()),
        input: Some(Box::new(Schema(trace.clone(), "validate input"))),
        output: Some(Box::new(Schema(trace.clone(), "validate output"))),
        cache_key: Some(Box::new(recorder.clone())),
        limiter,
    };
    let candidate = Candidate { entry: Arc::new(entry), enabled: true };
    let (state, rows, rows_trace) = (folder.path().to_owned(), memory.clone(), trace.clone());
    let jobs = LazyJobs::new(move || {
        let parts = Parts {
            store: TestStore::new(&rows, rows_trace.clone()),
            events: Arc::new(memory::Events(rows.clone())),
            codec: Arc::new(PlainCodec),
            arguments: Arc::new(crate::scripted::ByArguments),
            clock: Arc::new(SystemClock),
            options: Options::default().into(),
        };
        Ok(Jobs::open(&state, new_id(&SystemClock, &SystemRandom), parts)?)
    });
    let disk = Box::new(Disk(trace.clone(), memory::Cache::default()));
    let engine = Engine {
        registry: Arc::new(Registry::new(Snapshot::build(vec![candidate], Vec::new()))),
        rate_limits: rate_limits(recorder.clone()),
        call_limit,
        audit: Arc::new(recorder.clone()),
        cache: Cache::new(disk, Default::default(), Arc::new(SystemClock)),
        redactor: Arc::new(recorder),
        jobs,
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
    };
    World { _folder: folder, engine: Arc::new(engine), trace, memory }
}

const ADMITTED: [&str; 3] = ["rate limit", "validate input", "audit begin"];
const CARRIED_OUT: [&str; 6] =
    ["cache look-up", "run", "redact", "validate output", "cache store", "audit end"];

#[tokio::test]
async fn a_direct_call_passes_every_gate_in_order_and_a_cached_one_all_but_the_run() {
    let world = world(Timing::Sync, CallLimit::default());
    let outcome = world.engine.run(call("{}"), &NoopCaller).await;
    assert_eq!(&outcome.data().unwrap().bytes()[..], RESULT.as_bytes());
    assert_eq!(world.trace.take(), [&ADMITTED[..], &CARRIED_OUT[..]].concat());
    let outcome = world.engine.run(call("{}"), &NoopCaller).await;
    assert!(outcome.meta.cached);
    let hit = ["cache look-up", "redact", "audit end"];
    assert_eq!(world.trace.take(), [&ADMITTED[..], &hit[..]].concat());
}

#[tokio::test]
async fn a_job_passes_the_same_gates_between_the_first_and_the_last_write_of_its_row() {
    let world = world(Timing::AsyncShort, CallLimit::new(0));
    let outcome = world.engine.run(call("{}"), &NoopCaller).await;
    assert_eq!(outcome.meta.job.map(|(_, state)| state), Some(JobState::Complete), "{outcome:?}");
    let expected = [&ADMITTED[..], &["job create"], &CARRIED_OUT[..], &["job finish"]].concat();
    assert_eq!(world.trace.take(), expected);
}

#[tokio::test]
async fn a_recovered_job_passes_them_again_but_for_the_rate_limit() {
    let ran =
        [&["validate input", "audit begin", "job start"][..], &CARRIED_OUT[..], &["job finish"]].concat();
    let refused = vec!["validate input", "audit refused", "job finish"];
    for (arguments, state, expected) in
        [("{}", JobState::Complete, ran), (r#"{"a":"invalid"}"#, JobState::Failed, refused)]
    {
        let world = world(Timing::AsyncLong, CallLimit::default());
        let id = put_row(&world, new_id(&SystemClock, &SystemRandom), arguments).await;
        let jobs = world.engine.jobs.get().unwrap().clone();
        jobs.spawn_maintenance(&world.engine);
        let ended = jobs.wait(id, &Identity::local(), Duration::from_secs(10)).await.unwrap();
        assert_eq!((ended.state, world.trace.take()), (state, expected));
    }
}

/// Creates the pending row of a dead process.
async fn put_row(world: &World, owner: Id, arguments: &'static str) -> Id {
    let id = new_id(&SystemClock, &SystemRandom);
    let row = NewJob {
        id,
        tool: "example.echo".into(),
        arguments: Payload::json(arguments),
        identity: Identity::local(),
        timing: Timing::AsyncLong,
        repeatable: true,
        state: JobState::Pending,
        now: Timestamp::from_unix_ms(1),
        owner,
        ttl: Duration::from_secs(3600),
        key: None,
        trace: None,
        max_open: 10,
        max_open_of_caller: 10,
    };
    memory::Jobs(world.memory.clone()).create(row).await.unwrap();
    id
}

struct Fixed(&'static str);

impl StepArguments for Fixed {
    fn resolve(&self, _: &[Option<Outcome>]) -> Result<Payload, Error> {
        Ok(Payload::json(self.0))
    }
}

#[tokio::test]
async fn each_call_of_a_batch_passes_every_gate() {
    let world = world(Timing::Sync, CallLimit::default());
    let step = |id: &str, needs, arguments| Step {
        id: id.into(),
        action: Action::Call { tool: "echo".into() },
        needs,
        arguments: Box::new(Fixed(arguments)) as Box<dyn StepArguments>,
    };
    let batch = Batch { steps: vec![step("a", vec![], r#"{"n":1}"#), step("b", vec![0], r#"{"n":2}"#)] };
    let identity = Identity::local();
    let outcomes = world.engine.run_batch(&batch, context(&identity), &NoResources::default()).await.unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.error().is_none()), "{outcomes:?}");
    let one = [&ADMITTED[..], &CARRIED_OUT[..]].concat();
    assert_eq!(world.trace.take(), [one.clone(), one].concat());
}

fn context(identity: &Identity) -> RequestContext<'_> {
    RequestContext { identity, edge: Edge::Cli, trace: None, caller: &NoopCaller }
}

#[tokio::test]
async fn writing_and_deleting_a_resource_pass_the_gates_of_a_call() {
    let world = world(Timing::Sync, CallLimit::new(1));
    let files = Arc::new(Files(world.trace.clone(), NoResources::default()));
    let resources = GatedResources::new(files, world.engine.clone());
    let identity = Identity::local();
    let part =
        ResourceContents { uri: "file:///a".into(), mime: None, body: Body::Text("x".into()), meta: None };
    resources.write(part.clone(), context(&identity)).await.unwrap();
    assert_eq!(world.trace.take(), ["audit begin", "write", "audit end"]);
    resources.delete("file:///a", context(&identity)).await.unwrap();
    assert_eq!(world.trace.take(), ["audit begin", "delete", "audit end"]);
    let _held = world.engine.call_limit.try_acquire().unwrap();
    let refused = resources.write(part, context(&identity)).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Busy);
    assert_eq!(world.trace.take(), ["audit refused"]);
}

/// A source of resources in which only writes and deletes succeed.
struct Files(Trace, NoResources);

impl Resources for Files {
    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        c: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Resource>> {
        self.1.list(cursor, c)
    }

    fn templates<'a>(
        &'a self,
        cursor: Option<&'a str>,
        c: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<ResourceTemplate>> {
        self.1.templates(cursor, c)
    }

    fn read<'a>(&'a self, uri: &'a str, c: RequestContext<'a>) -> RequestFuture<'a, ReadResult> {
        self.1.read(uri, c)
    }

    fn write<'a>(&'a self, _: ResourceContents, _: RequestContext<'a>) -> RequestFuture<'a, ()> {
        self.0.add("write");
        Box::pin(std::future::ready(Ok(())))
    }

    fn delete<'a>(&'a self, _: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, ()> {
        self.0.add("delete");
        Box::pin(std::future::ready(Ok(())))
    }

    fn complete<'a>(
        &'a self,
        uri: &'a str,
        completing: CompletionRequest,
        c: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        self.1.complete(uri, completing, c)
    }

    fn watch<'a>(&'a self, uri: &'a str, c: RequestContext<'a>) -> RequestFuture<'a, WatchGuard> {
        self.1.watch(uri, c)
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.1.changes()
    }
}

/// Arguments over the size limit and against the schema.
const LARGE: &str = r#"{"a":"invalid invalid invalid invalid invalid invalid invalid invalid"}"#;

#[tokio::test]
async fn a_refusal_stops_at_its_gate_and_is_recorded() {
    // Of two gates that would refuse, the earlier one does.
    let cases: [(&str, &'static str, usize, ErrorKind, &[&str]); 4] = [
        ("missing", LARGE, 0, ErrorKind::UnknownTool, &["audit refused"]),
        ("echo", LARGE, 0, ErrorKind::InputTooLarge, &["rate limit", "audit refused"]),
        (
            "echo",
            r#"{"a":"invalid"}"#,
            0,
            ErrorKind::InvalidInput,
            &["rate limit", "validate input", "audit refused"],
        ),
        ("echo", "{}", 0, ErrorKind::Busy, &["rate limit", "validate input", "audit refused"]),
    ];
    for (tool, arguments, calls, kind, expected) in cases {
        let world = world(Timing::Sync, CallLimit::new(calls));
        let refused = Call { tool: tool.into(), ..call(arguments) };
        let outcome = world.engine.run(refused, &NoopCaller).await;
        assert_eq!(outcome.error().unwrap().kind, kind, "{arguments}");
        assert_eq!(outcome.error().unwrap().correlation_id, outcome.meta.call_id);
        assert_eq!(world.trace.take(), expected, "{arguments}");
    }
}

#[tokio::test]
async fn a_job_that_is_refused_has_no_row() {
    let world = world(Timing::AsyncLong, CallLimit::default());
    let outcome = world.engine.run(call(r#"{"a":"invalid"}"#), &NoopCaller).await;
    assert_eq!(outcome.error().unwrap().kind, ErrorKind::InvalidInput);
    assert_eq!(outcome.meta.job, None);
    assert_eq!(world.trace.take(), ["rate limit", "validate input", "audit refused"]);
}

#[tokio::test]
async fn a_result_against_its_schema_is_neither_returned_nor_cached() {
    for timing in [Timing::Sync, Timing::AsyncShort] {
        let world = world(timing, CallLimit::default());
        let outcome = world.engine.run(call(r#"{"a":"bad result"}"#), &NoopCaller).await;
        assert_eq!(outcome.error().unwrap().kind, ErrorKind::InvalidOutput);
        assert!(outcome.data().is_none());
        let seen = world.trace.take();
        assert!(!seen.contains(&"cache store") && seen.contains(&"audit end"), "{seen:?}");
    }
}

#[tokio::test]
async fn a_call_with_the_key_of_another_gets_its_result_and_is_recorded_too() {
    let world = world(Timing::Sync, CallLimit::default());
    let keyed =
        |arguments| Call { idempotency_key: Some("k".into()), wait: Wait::UntilDone, ..call(arguments) };
    let first = world.engine.run(keyed("{}"), &NoopCaller).await;
    world.trace.take();
    let second = world.engine.run(keyed("{}"), &NoopCaller).await;
    assert_eq!(second.meta.job, first.meta.job);
    assert_eq!(second.data().unwrap().bytes(), first.data().unwrap().bytes());
    let expected = [&ADMITTED[..], &["job create", "redact", "audit end"]].concat();
    assert_eq!(world.trace.take(), expected);
}

#[tokio::test]
async fn a_call_with_the_key_of_a_job_that_still_runs_gets_its_id() {
    let world = world(Timing::AsyncLong, CallLimit::default());
    let keyed = || Call { idempotency_key: Some("k".into()), ..call(r#"{"a":"hang"}"#) };
    let first = world.engine.run(keyed(), &NoopCaller).await;
    let second = world.engine.run(keyed(), &NoopCaller).await;
    assert_eq!(second.error(), None);
    assert_eq!(second.meta.job.map(|(id, _)| id), first.meta.job.map(|(id, _)| id));
    assert!(second.meta.job.is_some_and(|(_, state)| !state.is_finished()), "{second:?}");
    world.engine.jobs.get().unwrap().shut_down().await;
}

#[tokio::test]
async fn a_caller_that_leaves_at_any_moment_leaves_no_job_that_runs_for_ever() {
    for polls in 0..12 {
        let world = world(Timing::AsyncShort, CallLimit::default());
        let mut running = Box::pin(world.engine.run(call(r#"{"a":"hang"}"#), &NoopCaller));
        for _ in 0..polls {
            let waker = std::task::Waker::noop();
            assert!(running.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
            tokio::task::yield_now().await;
        }
        drop(running);
        let rows = memory::Jobs(world.memory.clone());
        let open = || async {
            rows.count(None)
                .await
                .unwrap()
                .into_iter()
                .any(|(state, count)| !state.is_finished() && count > 0)
        };
        let ended = tokio::time::timeout(Duration::from_secs(10), async {
            // The task of the job first, then its row.
            while open().await || Arc::strong_count(&world.engine.audit) > 1 {
                tokio::task::yield_now().await;
            }
        });
        assert!(ended.await.is_ok(), "after {polls} polls a job is left");
    }
}
