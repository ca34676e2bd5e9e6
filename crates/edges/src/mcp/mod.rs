//! The Model Context Protocol at our door: with a handshake and sessions (2024-11-05 to 2025-11-25), or without either
//! (2026-07-28), on one endpoint, on stdio, on a WebSocket and on legacy HTTP+SSE.
//!
//! `http`, and `stdio`, `legacy` and `websocket` around a `peer`, carry messages; `handshake` and `stateless` know what an era demands; `methods` and `talk` do what
//! is asked, the same for both.

mod backlog;
mod calls;
mod catalogue;
mod changes;
mod dialect;
mod framed;
mod general;
mod handshake;
mod http;
mod legacy;
mod line;
mod listen;
mod methods;
mod outbox;
mod parked;
mod peer;
mod seal;
mod session;
mod session_caller;
mod sse;
mod stateless;
mod stdio;
mod talk;
mod tasks;
mod turn;
mod websocket;

pub use framed::serve_framed;
pub(crate) use http::handle;
pub(crate) use legacy::{message, stream};
pub use stdio::serve_stdio;
pub(crate) use websocket::{Patience, Upgrade, converse, upgrade};

use crate::patience::until_over;
use catalogue::Catalogues;
use changes::Change;
use parked::Parked;
use session::Sessions;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use toolyard_engine::{Engine, NoPrompts, NoResources, NoTasks, Prompts, Resources, Tasks};
use toolyard_wire::mcp::hello::Offer;

/// How long what was cancelled may take to stop.
const STOPPING: Duration = Duration::from_secs(5);

/// What there is besides tools.
#[derive(Clone)]
pub struct Services {
    pub resources: Arc<dyn Resources>,
    pub prompts: Arc<dyn Prompts>,
    pub tasks: Arc<dyn Tasks>,
}

/// Bounds of what clients can make us remember.
#[derive(Clone, Debug)]
pub struct McpOptions {
    pub max_sessions: usize,
    /// A session without a request, a running call or an open stream for so long is forgotten.
    pub session_idle: Duration,
    /// Calls of stateless clients that wait for an answer.
    pub max_parked: usize,
    pub park_for: Duration,
    /// Messages that may wait for a client that reads slowly; beyond them notifications are left out and answers wait.
    pub max_queued: usize,
    pub max_queued_bytes: usize,
    /// Seals what stateless clients carry for us; the same after a restart, where that is wanted.
    pub key: [u8; 32],
}

/// Everything the requests of one server share.
pub struct Mcp {
    engine: Arc<Engine>,
    services: Services,
    options: McpOptions,
    sessions: Sessions,
    parked: Parked,
    catalogues: Catalogues,
    changes: broadcast::Sender<Change>,
    stopping: watch::Sender<bool>,
}

impl Mcp {
    pub fn new(engine: Arc<Engine>, services: Services, options: McpOptions) -> Arc<Mcp> {
        Arc::new(Mcp {
            engine,
            services,
            sessions: Sessions::new(options.max_sessions),
            parked: Parked::new(options.max_parked),
            options,
            catalogues: Catalogues::default(),
            changes: broadcast::Sender::new(256),
            stopping: watch::Sender::new(false),
        })
    }

    /// Spreads changes to those who listen and forgets what is too old. Runs until it is dropped.
    pub async fn tend(&self) {
        changes::spread(self).await;
    }

    /// Ends every open stream, and with them the connections.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Cancels whatever still runs or waits, and gives it a moment to stop.
    pub async fn close(&self) {
        self.parked.clear();
        let sessions = self.sessions.clear();
        until_over(STOPPING, || !sessions.iter().any(|session| session.is_running())).await;
    }

    /// The resources, for other edges.
    pub fn resources(&self) -> Arc<dyn Resources> {
        self.services.resources.clone()
    }

    /// The prompts, for other edges.
    pub fn prompts(&self) -> Arc<dyn Prompts> {
        self.services.prompts.clone()
    }

    fn offer(&self) -> Offer {
        Offer {
            resources: self.services.resources.are_there(),
            prompts: self.services.prompts.are_there(),
            tasks: self.services.tasks.are_there(),
        }
    }
}

impl Default for Services {
    fn default() -> Services {
        Services {
            resources: Arc::new(NoResources::default()),
            prompts: Arc::new(NoPrompts::default()),
            tasks: Arc::new(NoTasks),
        }
    }
}

impl McpOptions {
    pub fn new(key: [u8; 32]) -> McpOptions {
        McpOptions {
            max_sessions: 20_000,
            session_idle: Duration::from_secs(30 * 60),
            max_parked: 1000,
            park_for: Duration::from_secs(10 * 60),
            max_queued: 1000,
            max_queued_bytes: 16 << 20,
            key,
        }
    }
}

/// Nothing here panics while it holds a lock, so a poisoned one is as good as another.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
