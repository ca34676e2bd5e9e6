//! The notification stream of a session: changes that belong to no request.

use crate::mcp::methods::changes::Change;
use crate::mcp::session::Session;
use crate::mcp::{Mcp, session::dialect_v1};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot, watch};
use toolyard_engine::Resources;
use toolyard_wire::mcp::notifications;

pub(in crate::mcp) struct NotificationStream {
    session: Arc<Session>,
    changes: broadcast::Receiver<Change>,
    stopping: watch::Receiver<bool>,
    /// Resolves when another stream replaces this one or the session ends.
    replaced: oneshot::Receiver<()>,
    resources: Arc<dyn Resources>,
    /// Changes that are not encoded yet.
    pending: VecDeque<Change>,
    ready: VecDeque<(u64, Bytes)>,
}

impl NotificationStream {
    /// Starts with the stored notifications after the number `after`.
    pub fn open(mcp: &Mcp, session: Arc<Session>, after: Option<u64>) -> NotificationStream {
        let replaced = session.take_notification_stream();
        let (changes, stopping) = (mcp.changes.subscribe(), mcp.stopping.subscribe());
        let ready = after.map(|number| session.notifications_after(number)).unwrap_or_default().into();
        let (resources, pending) = (mcp.resources(), VecDeque::new());
        NotificationStream { session, changes, stopping, replaced, resources, pending, ready }
    }

    /// The next message and its number; `None` after the last one. Cancel-safe.
    pub async fn next(&mut self) -> Option<(u64, Bytes)> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if let Some(change) = self.pending.front().cloned() {
                // It stays in the queue until it is encoded, because this future may be dropped meanwhile.
                self.push_notification(&change).await;
                self.pending.pop_front();
                continue;
            }
            let change = tokio::select! {
                _ = &mut self.replaced => return None,
                _ = self.stopping.wait_for(|stopping| *stopping) => return None,
                change = self.changes.recv() => change,
            };
            match change {
                Ok(change) => self.pending.push_back(change),
                Err(RecvError::Lagged(_)) => self.push_all_changes(),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    async fn push_notification(&mut self, change: &Change) {
        let handshake = self.session.handshake;
        let message = match change {
            Change::Updated(uri) if !self.session.is_subscribed(uri) => return,
            Change::Updated(uri) if handshake.is_v1() => {
                match dialect_v1::updated(self.resources.as_ref(), &self.session, uri).await {
                    Some(message) => message,
                    None => return,
                }
            }
            Change::Updated(uri) => notifications::resource_updated(uri, None),
            _ if !handshake.takes_notifications() => return,
            Change::Tools => notifications::list_changed(notifications::TOOLS, None),
            Change::Prompts => notifications::list_changed(notifications::PROMPTS, None),
            Change::Resources => notifications::list_changed(notifications::RESOURCES, None),
        };
        let message = Bytes::from(message);
        let number = self.session.store_notification(message.clone());
        self.ready.push_back((number, message));
    }

    /// For a lagged receiver: everything may have changed.
    fn push_all_changes(&mut self) {
        self.pending = [Change::Tools, Change::Prompts, Change::Resources].into();
        self.pending
            .extend(self.session.subscribed_uris().into_iter().map(|uri| Change::Updated(uri.into())));
    }
}
