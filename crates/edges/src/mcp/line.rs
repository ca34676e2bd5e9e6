//! A peer's place among the sessions, for as long as its connection lasts.

use super::Mcp;
use super::peer::{Eras, Peer};
use crate::patience::until_over;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use toolyard_protocol::Identity;

/// Dropping it ends the conversation and what runs in it.
pub(super) struct Line {
    pub mcp: Arc<Mcp>,
    pub peer: Arc<Peer>,
    /// Unguessable; whoever knows it can speak for the client.
    pub id: String,
    stopping: watch::Receiver<bool>,
}

impl Line {
    /// `None` when there are too many sessions.
    pub fn open(mcp: &Arc<Mcp>, identity: Identity, eras: Eras) -> Option<Line> {
        let peer = Arc::new(Peer::new(mcp, identity, eras));
        let id = mcp.sessions.open_line(mcp.engine.random.as_ref(), peer.clone())?;
        Some(Line { mcp: mcp.clone(), peer, id, stopping: mcp.stopping.subscribe() })
    }

    /// Resolves after the stop signal, when nothing runs any more and all was said, or after that long.
    pub async fn stopped(&self, drain: Duration) {
        let mut stopping = self.stopping.clone();
        // Fails when the sender is gone, and it lives in `mcp`.
        let _ = stopping.wait_for(|stopping| *stopping).await;
        until_over(drain, || !self.peer.is_running() && self.peer.backlog.is_empty()).await;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.mcp.sessions.remove(&self.id, &self.peer.identity);
        // Also when it was thrown out before.
        self.peer.close();
    }
}
