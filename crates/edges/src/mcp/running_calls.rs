//! The running calls of one client, cancellable by request id.

use crate::mcp::lock;
use futures_util::FutureExt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use tokio::task::AbortHandle;
use toolyard_wire::jsonrpc::RequestId;

/// Requests of one client that may run at the same time.
const MAX_RUNNING: usize = 1000;

#[derive(Default)]
pub(super) struct RunningCalls(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next: u64,
    /// A client may reuse an id: each use is a separate call.
    running: Vec<(u64, RequestId, AbortHandle)>,
    closed: bool,
}

impl RunningCalls {
    /// Runs `work` until it ends or is cancelled; `false` when too many calls are running.
    pub fn spawn(&self, id: RequestId, work: impl Future<Output = ()> + Send + 'static) -> bool {
        let mut table = lock(&self.0);
        if table.closed || table.running.len() >= MAX_RUNNING {
            return false;
        }
        table.next += 1;
        let key = table.next;
        let done = RemoveOnDrop { table: self.0.clone(), key };
        // The lock is held until the handle is in the table, so that `RemoveOnDrop` cannot run first.
        // Not an async block, which would have room for the work twice.
        let task = tokio::spawn(work.map(move |()| drop(done)));
        table.running.push((key, id, task.abort_handle()));
        true
    }

    pub fn cancel(&self, id: &RequestId) {
        let handles: Vec<AbortHandle> = {
            let table = lock(&self.0);
            table
                .running
                .iter()
                .filter(|(_, known, _)| known == id)
                .map(|(_, _, handle)| handle.clone())
                .collect()
        };
        handles.iter().for_each(AbortHandle::abort);
    }

    pub fn any_running(&self) -> bool {
        !lock(&self.0).running.is_empty()
    }

    /// Cancels all calls; no new one can start afterwards.
    pub fn close(&self) {
        let handles: Vec<AbortHandle> = {
            let mut table = lock(&self.0);
            table.closed = true;
            table.running.iter().map(|(_, _, handle)| handle.clone()).collect()
        };
        handles.iter().for_each(AbortHandle::abort);
    }
}

/// Removes the call from the table, however it ends.
struct RemoveOnDrop {
    table: Arc<Mutex<Table>>,
    key: u64,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        lock(&self.table).running.retain(|(key, _, _)| *key != self.key);
    }
}
