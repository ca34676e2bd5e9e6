//! Serves the Model Context Protocol: with a handshake and sessions (2024-11-05 to 2025-11-25), or without
//! either (2026-07-28), on one endpoint, on stdio, on a WebSocket and on legacy HTTP+SSE.
//!
//! `transport` carries messages; `session` (with a handshake) and `stateless` are the two eras; `methods`
//! implements the methods for both.

mod messages;
mod methods;
mod running_calls;
mod send_queue;
mod session;
mod stateless;
mod transport;

pub use transport::framed_stdio::serve_framed;
pub(crate) use transport::http::{handle, identity, refuse, words};
pub(crate) use transport::legacy_sse::{open_legacy_stream, post_legacy_message};
pub use transport::stdio::serve_stdio;
pub(crate) use transport::websocket::{Upgrade, WebSocketTimeouts, serve_websocket, upgrade};

use crate::buffers::Buffers;
use crate::limits::wait_until;
use messages::Bounds;
use methods::changes::{self, Change};
use session::Sessions;
use stateless::parked::ParkedCalls;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use toolyard_engine::{Engine, NoPrompts, NoResources, NoTasks, Prompts, Resources, Tasks};
use toolyard_wire::mcp::initialize::ServerCapabilities;
use transport::http::HeaderMirrorCache;

/// How long cancelled calls may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The services besides tools.
#[derive(Clone)]
pub struct Services {
    pub resources: Arc<dyn Resources>,
    pub prompts: Arc<dyn Prompts>,
    pub tasks: Arc<dyn Tasks>,
}

/// Limits of the state that clients can create.
#[derive(Clone, Debug)]
pub struct McpOptions {
    pub max_sessions: usize,
    /// A session without a request, a running call or an open stream for this long is closed.
    pub session_idle: Duration,
    /// Calls of stateless clients that wait for answers.
    pub max_parked: usize,
    pub park_for: Duration,
    /// Messages queued for one client; beyond this progress and log lines are dropped, and requests wait.
    pub max_queued: usize,
    /// The same in bytes, including results that are kept for resumption.
    pub max_queued_bytes: usize,
    /// Bytes that wait for clients to read them, of all sessions and connections.
    pub max_buffered_bytes: usize,
    /// Authenticates `requestState`; keep it across restarts so that the state stays valid.
    pub key: [u8; 32],
}

/// Everything the requests of one server share.
pub struct Mcp {
    engine: Arc<Engine>,
    services: Services,
    options: McpOptions,
    buffers: Arc<Buffers>,
    sessions: Sessions,
    parked: ParkedCalls,
    header_mirrors: HeaderMirrorCache,
    changes: broadcast::Sender<Change>,
    stopping: watch::Sender<bool>,
}

impl Mcp {
    pub fn new(engine: Arc<Engine>, services: Services, options: McpOptions) -> Arc<Mcp> {
        Arc::new(Mcp {
            engine,
            services,
            buffers: Buffers::new(options.max_buffered_bytes),
            sessions: Sessions::new(options.max_sessions),
            parked: ParkedCalls::new(options.max_parked),
            options,
            header_mirrors: HeaderMirrorCache::default(),
            changes: broadcast::Sender::new(256),
            stopping: watch::Sender::new(false),
        })
    }

    /// Forwards changes to subscribers and drops expired sessions and parked calls. Runs until it is dropped.
    pub async fn run_maintenance(&self) {
        changes::run_maintenance(self).await;
    }

    /// Ends every open stream, and with them the connections.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Cancels all running and parked calls, and waits briefly until they have stopped.
    pub async fn close(&self) {
        self.parked.clear();
        let sessions = self.sessions.clear();
        wait_until(STOP_TIMEOUT, || !sessions.iter().any(|session| session.is_running())).await;
    }

    /// What the server offers now; resources and prompts may come and go with the yard's files.
    fn server_capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            resources: self.services.resources.is_available(),
            prompts: self.services.prompts.is_available(),
            tasks: self.services.tasks.is_available(),
        }
    }

    pub(crate) fn buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }

    /// The resources, for other edges.
    pub fn resources(&self) -> Arc<dyn Resources> {
        self.services.resources.clone()
    }

    /// The prompts, for other edges.
    pub fn prompts(&self) -> Arc<dyn Prompts> {
        self.services.prompts.clone()
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
    /// The bounds of one client's queue.
    fn bounds(&self) -> Bounds {
        Bounds { messages: self.max_queued, bytes: self.max_queued_bytes }
    }

    pub fn new(key: [u8; 32]) -> McpOptions {
        McpOptions {
            max_sessions: 20_000,
            session_idle: Duration::from_secs(30 * 60),
            max_parked: 1000,
            park_for: Duration::from_secs(10 * 60),
            max_queued: 1000,
            max_queued_bytes: 64 << 20,
            max_buffered_bytes: 256 << 20,
            key,
        }
    }
}

/// Nothing here panics while it holds a lock, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
