//! A server on a free port over an engine of its own, stopped and removed when dropped.

use crate::client::Client;
use crate::services::{Cards, Shelf};
use crate::tools::{self, Counts};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use toolyard_edges::{Mcp, McpOptions, Options, Services, serve};
use toolyard_engine::audit::{AuditLog, Options as AuditOptions};
use toolyard_engine::cache::{Cache, Options as CacheOptions};
use toolyard_engine::clock::{SystemClock, SystemRandom};
use toolyard_engine::jobs::JobsDoor;
use toolyard_engine::{Engine, Registry, Snapshot};
use toolyard_protocol::NothingSecret;
use toolyard_wire::view::View;

pub struct Server {
    pub address: String,
    pub engine: Arc<Engine>,
    pub counts: Arc<Counts>,
    pub shelf: Arc<Shelf>,
    pub cards: Arc<Cards>,
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
        Server::over(options, false).await
    }

    /// With resources and prompts.
    pub async fn with_shelf() -> Server {
        Server::over(McpOptions::new([7; 32]), true).await
    }

    async fn over(options: McpOptions, filled: bool) -> Server {
        let (engine, counts, folder) = engine();
        let (shelf, cards) = (Arc::<Shelf>::default(), Arc::<Cards>::default());
        let mut services = Services::default();
        if filled {
            services.resources = shelf.clone();
            services.prompts = cards.clone();
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
        };
        let serving = serve(listener, engine.clone(), mcp, bounds, async {
            let _ = stopped.await;
        });
        tokio::spawn(serving);
        Server { address, engine, counts, shelf, cards, folder, stop: Some(stop) }
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.address).await
    }

    /// Another list of tools, as after a reload.
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
        AuditLog::open(&folder, AuditOptions::default(), clock.clone(), random.clone(), Arc::new(View))
            .unwrap();
    let cache = Cache::open(&folder, CacheOptions::default(), clock.clone());
    let registry = Arc::new(Registry::new(Snapshot::build(tools::all(&counts), Vec::new())));
    let jobs = JobsDoor::shut();
    let redactor = Arc::new(NothingSecret);
    (
        Arc::new(Engine {
            registry,
            audit,
            cache,
            redactor,
            jobs,
            crowd: toolyard_engine::Crowd::default(),
            clock,
            random,
        }),
        counts,
        folder,
    )
}

/// Asks again and again until the answer is yes.
pub async fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    let asked = async {
        while !ask() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap_or_else(|_| panic!("never: {what}"));
}
