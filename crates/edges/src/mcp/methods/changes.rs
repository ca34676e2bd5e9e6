//! Broadcasts changes to all open streams, and sweeps expired sessions and parked calls.

use crate::mcp::Mcp;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::broadcast::error::RecvError;
use toolyard_engine::ResourceChange;

/// A change; each stream filters what its client subscribed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mcp) enum Change {
    Tools,
    Prompts,
    Resources,
    Updated(Arc<str>),
}

const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Forwards the changes of every source to one channel.
pub(in crate::mcp) async fn run_maintenance(mcp: &Mcp) {
    let mut tools = mcp.engine.registry.changes();
    let mut prompts = mcp.services.prompts.changes();
    let mut resources = mcp.services.resources.changes();
    let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
    loop {
        // A closed source is skipped; the others continue.
        let change = tokio::select! {
            Ok(()) = tools.changed() => Change::Tools,
            Ok(()) = prompts.changed() => Change::Prompts,
            change = resources.recv() => match change {
                Ok(ResourceChange::Updated(uri)) => Change::Updated(uri),
                Ok(ResourceChange::List) | Err(RecvError::Lagged(_)) => Change::Resources,
                Err(RecvError::Closed) => std::future::pending().await,
            },
            _ = sweep.tick() => {
                let now = Instant::now();
                mcp.sessions.sweep(now, mcp.options.session_idle);
                mcp.parked.sweep(now);
                continue;
            }
        };
        // Fails only when no stream is open.
        let _ = mcp.changes.send(change);
    }
}
