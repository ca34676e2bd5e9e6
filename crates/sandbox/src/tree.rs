//! A running launcher with its tool: killed on drop, reaped in the background.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};
use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::OwnedSemaphorePermit;

use super::network_pool::RunNetwork;
use super::reaper::ReaperHandle;
use super::{OnListener, TraceLog, fds, launch_script, trace};
use toolyard_launcher::record::{self, Record};

/// Closing `control` makes the launcher kill the tree, also when the daemon dies.
pub struct ProcessTree {
    control: AsyncFd<OwnedFd>,
    received: Vec<u8>,
    receivers: Receivers,
    guard: Guard,
}

/// Who gets the descriptors that the launcher sends.
pub struct Receivers {
    pub network: RunNetwork,
    pub on_listener: Option<OnListener>,
    pub trace: Option<Arc<TraceLog>>,
}

/// Dropped after `control`, so that the launcher is already exiting when the reaper takes it.
struct Guard {
    pid: Pid,
    reaper: ReaperHandle,
    permit: Option<OwnedSemaphorePermit>,
}

impl ProcessTree {
    /// `control` must be registered before the launcher is started, because nothing may fail afterwards.
    pub fn new(
        control: AsyncFd<OwnedFd>,
        pid: Pid,
        reaper: ReaperHandle,
        permit: OwnedSemaphorePermit,
        receivers: Receivers,
    ) -> ProcessTree {
        let guard = Guard { pid, reaper, permit: Some(permit) };
        ProcessTree { control, received: Vec::with_capacity(record::LEN), receivers, guard }
    }

    pub fn register(control: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
        fds::set_nonblocking(&control)?;
        fds::register(control, Interest::READABLE)
    }

    pub fn launcher(&self) -> Pid {
        self.guard.pid
    }

    /// Kills the tree; its record can still be received with [`ProcessTree::wait`].
    pub fn kill(&self) {
        // It fails only if the launcher has already exited.
        let _ = shutdown(self.control.get_ref(), Shutdown::Write);
    }

    /// Waits until the tree is dead. `None` if the launcher exited without sending a record. Cancel-safe.
    pub async fn wait(&mut self) -> Option<Record> {
        while self.received.len() < record::LEN {
            let missing = record::LEN - self.received.len();
            let into = &mut self.received;
            match self.control.async_io(Interest::READABLE, |fd| fds::receive(fd, into, missing)).await {
                Ok((n, None)) if n > 0 => {}
                Ok((n, Some(descriptor))) if n > 0 => self.deliver(descriptor),
                _ => return None,
            }
        }
        self.guard.permit = None;
        self.receivers.network.release();
        Record::from_bytes(self.received[..].try_into().ok()?)
    }
}

impl ProcessTree {
    /// Passes on a descriptor by the tag byte that came with it. A read ends at a descriptor, so it is the last byte.
    fn deliver(&mut self, descriptor: OwnedFd) {
        match self.received.pop() {
            Some(launch_script::TAG_TRACE) => {
                if let Some(log) = self.receivers.trace.take() {
                    trace::serve(descriptor, log, self.guard.pid);
                }
            }
            Some(launch_script::TAG_NETWORK) => self.receivers.network.set(descriptor),
            Some(launch_script::TAG_LISTENER) => {
                if let Some(take) = self.receivers.on_listener.take() {
                    take(TcpListener::from(descriptor));
                }
            }
            _ => {}
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.reaper.reap_later(self.pid, self.permit.take());
    }
}
