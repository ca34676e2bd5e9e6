//! Changes that belong to no request, told to a session's client on the one stream it listens to.

use super::changes::Change;
use super::session::Session;
use super::{Mcp, dialect};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot, watch};
use toolyard_engine::Resources;
use toolyard_wire::mcp::notifications;

pub(super) struct General {
    session: Arc<Session>,
    changes: broadcast::Receiver<Change>,
    stopping: watch::Receiver<bool>,
    /// Resolves when another stream takes over or the session ends.
    replaced: oneshot::Receiver<()>,
    resources: Arc<dyn Resources>,
    /// Changes that were heard of and are not put into words yet.
    heard: VecDeque<Change>,
    ready: VecDeque<(u64, Bytes)>,
}

impl General {
    /// Starts with what came after that number, as far as it is kept.
    pub fn open(mcp: &Mcp, session: Arc<Session>, after: Option<u64>) -> General {
        let replaced = session.listen();
        let (changes, stopping) = (mcp.changes.subscribe(), mcp.stopping.subscribe());
        let ready = after.map(|number| session.general_after(number)).unwrap_or_default().into();
        let (resources, heard) = (mcp.resources(), VecDeque::new());
        General { session, changes, stopping, replaced, resources, heard, ready }
    }

    /// The next message and its number; `None` after the last one. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<(u64, Bytes)> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if let Some(change) = self.heard.front().cloned() {
                // It stays in the queue until it is told, because this future may be dropped meanwhile.
                self.tell(&change).await;
                self.heard.pop_front();
                continue;
            }
            let change = tokio::select! {
                _ = &mut self.replaced => return None,
                _ = self.stopping.wait_for(|stopping| *stopping) => return None,
                change = self.changes.recv() => change,
            };
            match change {
                Ok(change) => self.heard.push_back(change),
                Err(RecvError::Lagged(_)) => self.everything_changed(),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    async fn tell(&mut self, change: &Change) {
        let hello = self.session.hello;
        let message = match change {
            Change::Updated(uri) if !self.session.watches(uri) => return,
            Change::Updated(uri) if hello.is_first() => {
                match dialect::updated(self.resources.as_ref(), &self.session, uri).await {
                    Some(message) => message,
                    None => return,
                }
            }
            Change::Updated(uri) => notifications::resource_updated(uri, None),
            _ if !hello.takes_notifications() => return,
            Change::Tools => notifications::list_changed(notifications::TOOLS, None),
            Change::Prompts => notifications::list_changed(notifications::PROMPTS, None),
            Change::Resources => notifications::list_changed(notifications::RESOURCES, None),
        };
        let message = Bytes::from(message);
        let number = self.session.general(message.clone());
        self.ready.push_back((number, message));
    }

    /// The stream was too slow to see what changed: then everything may have.
    fn everything_changed(&mut self) {
        self.heard = [Change::Tools, Change::Prompts, Change::Resources].into();
        self.heard.extend(self.session.watched().into_iter().map(|uri| Change::Updated(uri.into())));
    }
}
