//! `subscriptions/listen`: a stream of notifications for a stateless client.

use crate::mcp::Mcp;
use crate::mcp::methods::changes::Change;
use crate::mcp::methods::{self, operation};
use crate::mcp::stateless::REVISION;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use toolyard_engine::{TaskChanges, WatchGuard};
use toolyard_protocol::{Error, Id, Identity};
use toolyard_wire::jsonrpc::{Request, RequestId};
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::listen::{self, Filter};
use toolyard_wire::mcp::{notifications, tasks};

/// The delay after a store error.
const RETRY_DELAY: Duration = Duration::from_secs(1);

pub(in crate::mcp) struct Subscription {
    mcp: Arc<Mcp>,
    id: RequestId,
    identity: Identity,
    filter: Filter,
    changes: broadcast::Receiver<Change>,
    stopping: watch::Receiver<bool>,
    /// The position in the task changes.
    cursor: Option<u64>,
    ready: VecDeque<Bytes>,
    finished: bool,
    // Held as long as the stream is open.
    _watches: Vec<WatchGuard>,
}

impl Subscription {
    /// Unsupported parts of the filter are dropped; the acknowledgement lists the rest.
    pub async fn open(
        mcp: &Arc<Mcp>,
        identity: Identity,
        tasks_declared: bool,
        request: &Request,
    ) -> Result<Subscription, Failure> {
        let mut filter = listen::read(&request.params)?;
        if !filter.tasks.is_empty() && !tasks_declared {
            return Err(Failure::missing_capability(tasks::REQUIRED));
        }
        // Subscribes before anything is read, so that no change is missed.
        let (changes, stopping) = (mcp.changes.subscribe(), mcp.stopping.subscribe());
        let server_capabilities = mcp.server_capabilities();
        filter.prompts &= server_capabilities.prompts;
        filter.resources &= server_capabilities.resources;
        let context = methods::context(&identity, request);
        let mut watches = Vec::new();
        let mut uris = Vec::new();
        for uri in std::mem::take(&mut filter.uris) {
            if let Ok(watch) = mcp.services.resources.watch(&uri, context).await {
                watches.push(watch);
                uris.push(uri);
            }
        }
        filter.uris = uris;
        let mut tasks = Vec::new();
        for task in std::mem::take(&mut filter.tasks) {
            if mcp.services.tasks.get(task, &identity).await.is_ok_and(|found| found.is_some()) {
                tasks.push(task);
            }
        }
        filter.tasks = tasks;
        let cursor = mcp.services.tasks.wait_for_changes(None);
        let cursor = if filter.tasks.is_empty() { None } else { cursor.await.ok().map(|now| now.cursor) };
        let ready = VecDeque::from([Bytes::from(listen::acknowledged(&request.id, &filter))]);
        let (mcp, id) = (mcp.clone(), request.id.clone());
        let finished = false;
        Ok(Subscription {
            mcp,
            id,
            identity,
            filter,
            changes,
            stopping,
            cursor,
            ready,
            finished,
            _watches: watches,
        })
    }

    /// The next message; `None` after the last one. Cancel-safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            if self.finished {
                return None;
            }
            let tasks = &self.mcp.services.tasks;
            let next = tokio::select! {
                _ = self.stopping.wait_for(|stopping| *stopping) => Next::Stop,
                changed = tasks.wait_for_changes(self.cursor), if !self.filter.tasks.is_empty() => Next::Tasks(changed),
                change = self.changes.recv() => Next::Change(change),
            };
            match next {
                Next::Stop => {
                    self.finished = true;
                    return Some(listen::write_end(&self.id, REVISION).into());
                }
                Next::Tasks(changed) => self.notify_tasks(changed).await,
                Next::Change(Ok(change)) => self.notify(&change),
                Next::Change(Err(RecvError::Lagged(_))) => self.notify_all(),
                Next::Change(Err(RecvError::Closed)) => self.finished = true,
            }
        }
    }

    pub fn id(&self) -> &RequestId {
        &self.id
    }

    fn notify(&mut self, change: &Change) {
        let id = Some(&self.id);
        let message = match change {
            Change::Tools if self.filter.tools => notifications::list_changed(notifications::TOOLS, id),
            Change::Prompts if self.filter.prompts => notifications::list_changed(notifications::PROMPTS, id),
            Change::Resources if self.filter.resources => {
                notifications::list_changed(notifications::RESOURCES, id)
            }
            Change::Updated(uri) if self.filter.uris.iter().any(|known| **known == **uri) => {
                notifications::resource_updated(uri, id)
            }
            _ => return,
        };
        self.ready.push_back(message.into());
    }

    /// For a lagged receiver: everything may have changed.
    fn notify_all(&mut self) {
        for change in [Change::Tools, Change::Prompts, Change::Resources] {
            self.notify(&change);
        }
        for uri in self.filter.uris.clone() {
            self.notify(&Change::Updated(uri.into()));
        }
    }

    async fn notify_tasks(&mut self, changed: Result<TaskChanges, Error>) {
        let Ok(changed) = changed else {
            // The store is busy or broken: wait before the next try.
            return tokio::time::sleep(RETRY_DELAY).await;
        };
        let of_interest: Vec<Id> = match changed.jobs {
            None => self.filter.tasks.clone(),
            Some(jobs) => self.filter.tasks.iter().filter(|id| jobs.contains(id)).copied().collect(),
        };
        for id in of_interest {
            if let Ok(Some(task)) = self.mcp.services.tasks.get(id, &self.identity).await {
                self.ready
                    .push_back(tasks::notification(&self.id, REVISION, &operation::task_view(&task)).into());
            }
        }
        // Set last, so that a dropped future reads the same changes again.
        self.cursor = Some(changed.cursor);
    }
}

enum Next {
    Stop,
    Tasks(Result<TaskChanges, Error>),
    Change(Result<Change, RecvError>),
}
