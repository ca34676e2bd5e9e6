//! An engine with every built-in tool, with SQLite and blob stores in a temporary folder.

use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use toolyard_engine::clock::{Clock, Random, SystemClock, SystemRandom, new_id};
use toolyard_engine::jobs::{self, Jobs, LazyJobs};
use toolyard_engine::{Engine, Registry, Snapshot};
use toolyard_formats::redact::by_name::View;
use toolyard_protocol::{
    Call, Edge, Error, Format, Identity, NoopCaller, NoopRedactor, Outcome, Payload, Timestamp, Wait,
};
use toolyard_runtimes::builtin::{
    ConfigView, LazyStores, Section, Selection, Services, Setting, Stores, YardFiles, candidates,
};
use toolyard_store::audit::{FileAuditLog, Options};
use toolyard_store::sqlite;
use toolyard_store::sqlite::open_cache;
use toolyard_store::{Blobs, NoFaults};
use toolyard_wire::outcome::JsonOutcomeCodec;
use toolyard_wire::typed;

pub struct Fixture {
    pub root: PathBuf,
    pub engine: Arc<Engine>,
    pub services: Arc<Services>,
}

/// Size of the event buffer, small enough to overflow in a test.
pub const MAX_EVENTS: u64 = 40;

impl Fixture {
    pub fn new() -> Fixture {
        Fixture::with(Arc::new(SystemClock), Arc::new(SystemRandom))
    }

    /// With a fixed clock and counting random numbers, so that responses are deterministic.
    pub fn frozen() -> Fixture {
        Fixture::with(Arc::new(FrozenClock), Arc::new(CountingRandom(AtomicU64::new(0))))
    }

    fn with(clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Fixture {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("toolyard-builtins-{}-{count}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let state = root.join(".toolyard");
        std::fs::create_dir_all(&state).unwrap();
        let root = std::fs::canonicalize(root).unwrap();
        let database =
            sqlite::Database::open(&state.join("yard.sqlite"), Arc::new(sqlite::NoFaults)).unwrap();
        let events = sqlite::Events::new(database.clone(), MAX_EVENTS);
        let parts = jobs::Parts {
            store: Arc::new(sqlite::Jobs::new(database.clone(), &events)),
            events: Arc::new(events),
            codec: Arc::new(JsonOutcomeCodec),
            arguments: Arc::new(toolyard_formats::cache_key::CanonicalKey),
            clock: Arc::new(SystemClock),
            options: jobs::Options::default().into(),
        };
        let service = Jobs::open(&state, new_id(&SystemClock, &SystemRandom), parts).unwrap();
        let lazy_jobs = LazyJobs::new(move || Ok(service.clone()));
        let folder = state.join("blobs");
        let stores = LazyStores::new(move || {
            Ok(Stores {
                artifacts: Arc::new(sqlite::Artifacts::new(database.clone())),
                annotations: Arc::new(sqlite::Annotations::new(database.clone())),
                graph: Arc::new(sqlite::Graph::new(database.clone())),
                blobs: Blobs::open(&folder, Arc::new(NoFaults))?,
            })
        });
        let registry = Arc::new(Registry::default());
        let services = Arc::new(Services {
            registry: Arc::downgrade(&registry),
            config: Arc::new(Config),
            jobs: lazy_jobs.clone(),
            stores,
            files: YardFiles::new(root.clone(), state.clone()),
            clock,
            random,
        });
        let tools = candidates(&services, &Selection::all()).unwrap();
        registry.replace(Snapshot::build(tools, Vec::new()));
        let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
        let audit =
            FileAuditLog::open(&state, Options::default(), clock.clone(), random.clone(), Arc::new(View));
        let cache = open_cache(&state, Default::default(), clock.clone());
        let redactor = Arc::new(NoopRedactor);
        let engine = Engine {
            registry,
            rate_limits: toolyard_engine::Lazy::unavailable(),
            audit: audit.unwrap(),
            cache,
            redactor,
            jobs: lazy_jobs,
            call_limit: toolyard_engine::CallLimit::default(),
            clock,
            random,
        };
        Fixture { root, engine: Arc::new(engine), services }
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.root.join(name), content).unwrap();
    }

    pub fn call(&self, tool: &str, arguments: &Value) -> Call {
        let arguments = Payload::json(arguments.to_string());
        Call::new(self.engine.call_id(), tool, arguments, Edge::Cli)
    }

    pub async fn run(&self, tool: &str, arguments: Value) -> Outcome {
        self.engine.run(self.call(tool, &arguments), &NoopCaller).await
    }

    pub async fn ok(&self, tool: &str, arguments: Value) -> Value {
        let outcome = self.run(tool, arguments).await;
        assert_eq!(outcome.error(), None, "{tool}");
        serde_json::from_slice(outcome.data().unwrap().bytes()).unwrap()
    }

    pub async fn err(&self, tool: &str, arguments: Value) -> Error {
        let outcome = self.run(tool, arguments).await;
        outcome.error().unwrap_or_else(|| panic!("{tool} succeeded: {outcome:?}")).clone()
    }

    pub async fn err_as(&self, caller: &str, tool: &str, arguments: Value) -> Error {
        let call = Call { identity: Identity::new(caller), ..self.call(tool, &arguments) };
        let outcome = self.engine.run(call, &NoopCaller).await;
        outcome.error().unwrap_or_else(|| panic!("{tool} succeeded: {outcome:?}")).clone()
    }

    pub async fn ok_as(&self, caller: &str, tool: &str, arguments: Value) -> Value {
        let call = Call { identity: Identity::new(caller), ..self.call(tool, &arguments) };
        let outcome = self.engine.run(call, &NoopCaller).await;
        assert_eq!(outcome.error(), None, "{tool}");
        serde_json::from_slice(outcome.data().unwrap().bytes()).unwrap()
    }

    /// Starts a job and returns its id without waiting.
    pub async fn start(&self, caller: &str, tool: &str, arguments: Value) -> String {
        let call = self.call(tool, &arguments);
        let call = Call { identity: Identity::new(caller), wait: Wait::NoWait, ..call };
        let outcome = self.engine.run(call, &NoopCaller).await;
        outcome.meta.job.unwrap_or_else(|| panic!("no job: {outcome:?}")).0.to_string()
    }

    /// Calls the tool in MsgPack.
    pub async fn packed(&self, tool: &str, arguments: &Value) -> Payload {
        self.packed_value(tool, typed::write(arguments, Format::MsgPack).unwrap()).await
    }

    pub async fn packed_value(&self, tool: &str, arguments: Payload) -> Payload {
        let call = Call::new(self.engine.call_id(), tool, arguments, Edge::Cli);
        let outcome = self.engine.run(call, &NoopCaller).await;
        assert_eq!(outcome.error(), None, "{tool}");
        outcome.data().unwrap().clone()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.engine.audit.close();
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

struct Config;

impl ConfigView for Config {
    fn sections(&self) -> Vec<Section> {
        let server = vec![
            ("listen", Setting::Text("127.0.0.1:3333".into())),
            ("max_body", Setting::Number(4096)),
            ("tls", Setting::Switch(false)),
            ("retention", Setting::Unset(())),
        ];
        let store = vec![
            ("url", Setting::Text("postgres://u:hunter2@db/x".into())),
            ("api_key", Setting::Text("hunter2".into())),
        ];
        vec![Section { name: "server", settings: server }, Section { name: "store", settings: store }]
    }
}

struct FrozenClock;

impl Clock for FrozenClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(1_794_775_458_123)
    }
}

struct CountingRandom(AtomicU64);

impl Random for CountingRandom {
    fn fill(&self, bytes: &mut [u8]) {
        let count = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        bytes.fill(0);
        let at = bytes.len() - count.len();
        bytes[at..].copy_from_slice(&count);
    }
}
