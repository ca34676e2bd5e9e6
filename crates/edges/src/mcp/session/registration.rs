//! The entry of a duplex client in the session table, for the lifetime of its connection.

use crate::limits::wait_until;
use crate::mcp::Mcp;
use crate::mcp::transport::duplex::{DuplexClient, Eras};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use toolyard_protocol::Identity;

/// Dropping it ends the session and cancels its calls.
pub(in crate::mcp) struct SessionRegistration {
    pub mcp: Arc<Mcp>,
    pub client: Arc<DuplexClient>,
    /// Unguessable: the id authorizes messages of this session.
    pub id: String,
    stopping: watch::Receiver<bool>,
}

impl SessionRegistration {
    /// `None` when there are too many sessions.
    pub fn open(mcp: &Arc<Mcp>, identity: Identity, eras: Eras) -> Option<SessionRegistration> {
        let client = Arc::new(DuplexClient::new(mcp, identity, eras));
        let id = mcp.sessions.open_duplex(mcp.engine.random.as_ref(), client.clone())?;
        Some(SessionRegistration { mcp: mcp.clone(), client, id, stopping: mcp.stopping.subscribe() })
    }

    /// After the stop signal, waits until no call runs and all messages are sent, at most `drain`.
    pub async fn wait_for_drain(&self, drain: Duration) {
        let mut stopping = self.stopping.clone();
        // Cannot fail: the sender lives in `mcp`.
        let _ = stopping.wait_for(|stopping| *stopping).await;
        wait_until(drain, || !self.client.is_running() && self.client.send_queue.is_empty()).await;
    }
}

impl Drop for SessionRegistration {
    fn drop(&mut self) {
        self.mcp.sessions.remove(&self.id, &self.client.identity);
        // Also needed when the session was evicted before.
        self.client.close();
    }
}
