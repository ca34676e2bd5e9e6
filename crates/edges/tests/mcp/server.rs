//! A server on a free port with its own engine, stopped and removed on drop.

use crate::client::Client;
use crate::services::{TestPrompts, TestResources};
use crate::tools::{self, Counts};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use toolyard_edges::{Auth, Mcp, McpOptions, Options, Services, TokenPolicy, serve};
use toolyard_engine::cache::Options as CacheOptions;
use toolyard_engine::clock::{SystemClock, SystemRandom};
use toolyard_engine::jobs::LazyJobs;
use toolyard_engine::{Engine, Registry, Snapshot};
use toolyard_formats::redact::by_name::View;
use toolyard_protocol::NoopRedactor;
use toolyard_store::audit::{FileAuditLog, Options as AuditOptions};
use toolyard_store::sqlite::open_cache;

pub struct Server {
    pub address: String,
    pub engine: Arc<Engine>,
    pub counts: Arc<Counts>,
    pub resources: Arc<TestResources>,
    pub prompts: Arc<TestPrompts>,
    folder: PathBuf,
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    pub async fn start() -> Server {
        Server::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut McpOptions)) -> Server {
        let mut options = McpOptions::new([7; 32]);
        change(&mut options);
        Server::start_with(options, false).await
    }

    /// With resources and prompts.
    pub async fn with_resources() -> Server {
        Server::start_with(McpOptions::new([7; 32]), true).await
    }

    async fn start_with(options: McpOptions, with_services: bool) -> Server {
        let (engine, counts, folder) = engine();
        let (resources, prompts) = (Arc::<TestResources>::default(), Arc::<TestPrompts>::default());
        let mut services = Services::default();
        if with_services {
            services.resources = resources.clone();
            services.prompts = prompts.clone();
        }
        let mcp = Mcp::new(engine.clone(), services, options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let bounds = Options {
            max_body: 64 << 10,
            max_connections: 1000,
            max_connections_per_peer: 1000,
            max_header: 16 << 10,
            max_headers: 50,
            header_timeout: Duration::from_secs(5),
            stalled: Duration::from_secs(1),
            ping: Duration::from_secs(1),
            drain: Duration::from_secs(5),
            auth: Auth { policy: TokenPolicy::Guarded, token: "token".to_owned() },
        };
        let serving = serve(listener, engine.clone(), mcp, bounds, async {
            let _ = stopped.await;
        });
        tokio::spawn(serving);
        Server { address, engine, counts, resources, prompts, folder, stop: Some(stop) }
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.address).await
    }

    /// Replaces the tool list, as a reload does.
    pub fn reload(&self, leave_out: &str) {
        let mut candidates = tools::all(&self.counts);
        candidates.retain(|candidate| candidate.entry.spec.exposed.as_str() != leave_out);
        self.engine.registry.update(Snapshot::build(candidates, Vec::new()));
    }

    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn engine() -> (Arc<Engine>, Arc<Counts>, PathBuf) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("toolyard-mcp-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let counts = Arc::<Counts>::default();
    let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
    let audit =
        FileAuditLog::open(&folder, AuditOptions::default(), clock.clone(), random.clone(), Arc::new(View))
            .unwrap();
    let cache = open_cache(&folder, CacheOptions::default(), clock.clone());
    let registry = Arc::new(Registry::new(Snapshot::build(tools::all(&counts), Vec::new())));
    let jobs = LazyJobs::unavailable();
    let redactor = Arc::new(NoopRedactor);
    (
        Arc::new(Engine {
            registry,
            rate_limits: toolyard_engine::Lazy::unavailable(),
            audit,
            cache,
            redactor,
            jobs,
            call_limit: toolyard_engine::CallLimit::default(),
            clock,
            random,
        }),
        counts,
        folder,
    )
}

/// Polls until the condition holds.
pub async fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    let asked = async {
        while !ask() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap_or_else(|_| panic!("never: {what}"));
}
