//! Changes that belong to no request, told to a session's client on the one stream it listens to.

use super::Mcp;
use super::changes::Change;
use super::session::Session;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot, watch};
use toolyard_wire::mcp::notifications;

pub(super) struct General {
    session: Arc<Session>,
    changes: broadcast::Receiver<Change>,
    stopping: watch::Receiver<bool>,
    /// Resolves when another stream takes over or the session ends.
    replaced: oneshot::Receiver<()>,
    ready: VecDeque<(u64, Bytes)>,
}

impl General {
    /// Starts with what came after that number, as far as it is kept.
    pub fn open(mcp: &Mcp, session: Arc<Session>, after: Option<u64>) -> General {
        let replaced = session.listen();
        let (changes, stopping) = (mcp.changes.subscribe(), mcp.stopping.subscribe());
        let ready = after.map(|number| session.general_after(number)).unwrap_or_default().into();
        General { session, changes, stopping, replaced, ready }
    }

    /// The next message and its number; `None` after the last one. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<(u64, Bytes)> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            let change = tokio::select! {
                _ = &mut self.replaced => return None,
                _ = self.stopping.wait_for(|stopping| *stopping) => return None,
                change = self.changes.recv() => change,
            };
            match change {
                Ok(change) => self.tell(&change),
                Err(RecvError::Lagged(_)) => self.tell_everything(),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn tell(&mut self, change: &Change) {
        let message = match change {
            Change::Tools => notifications::list_changed(notifications::TOOLS, None),
            Change::Prompts => notifications::list_changed(notifications::PROMPTS, None),
            Change::Resources => notifications::list_changed(notifications::RESOURCES, None),
            Change::Updated(uri) if self.session.watches(uri) => notifications::resource_updated(uri, None),
            Change::Updated(_) => return,
        };
        let message = Bytes::from(message);
        let number = self.session.general(message.clone());
        self.ready.push_back((number, message));
    }

    /// The stream was too slow to see what changed: then everything may have.
    fn tell_everything(&mut self) {
        for change in [Change::Tools, Change::Prompts, Change::Resources] {
            self.tell(&change);
        }
        for uri in self.session.watched() {
            self.tell(&Change::Updated(uri.into()));
        }
    }
}
