//! Reaps launchers that have exited, without blocking a worker thread.
//!
//! A launcher exits a moment after its record arrives, and waiting for it would cost every call a wake-up.
//! Instead pids are put on a list that each later call sweeps; a thread covers the time without calls.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::sync::OwnedSemaphorePermit;

const INTERVAL: Duration = Duration::from_millis(20);

pub struct Reaper(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    pending: Vec<PendingChild>,
    /// The thread sleeps without timeout and must be woken.
    asleep: bool,
    closed: bool,
}

struct PendingChild {
    pid: Pid,
    /// A cancelled child holds its permit until it is reaped.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Reaper {
    pub fn start() -> io::Result<Reaper> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("reaper".into()).spawn(move || theirs.sweep_until_closed())?;
        Ok(Reaper(shared))
    }

    pub fn handle(&self) -> ReaperHandle {
        ReaperHandle(Arc::clone(&self.0))
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.wake.notify_one();
    }
}

#[derive(Clone)]
pub struct ReaperHandle(Arc<Shared>);

impl ReaperHandle {
    /// Takes over a launcher that is exiting or has been killed.
    pub fn reap_later(&self, pid: Pid, permit: Option<OwnedSemaphorePermit>) {
        let mut state = self.0.lock();
        state.pending.push(PendingChild { pid, _permit: permit });
        state.sweep();
        if state.asleep && !state.pending.is_empty() {
            state.asleep = false;
            self.0.wake.notify_one();
        }
    }
}

impl Shared {
    /// The list is consistent after every statement, so a poisoned lock can be used.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sweep_until_closed(&self) {
        let mut state = self.lock();
        loop {
            state.sweep();
            state.asleep = state.pending.is_empty();
            state = match (state.asleep, state.closed) {
                (true, true) => return,
                (true, false) => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                (false, _) => {
                    let (state, _) =
                        self.wake.wait_timeout(state, INTERVAL).unwrap_or_else(PoisonError::into_inner);
                    state
                }
            };
        }
    }
}

impl State {
    fn sweep(&mut self) {
        // Each pid is our own child and only reaped here. An error means it is gone.
        self.pending.retain(|w| matches!(waitpid(Some(w.pid), WaitOptions::NOHANG), Ok(None)));
    }
}
