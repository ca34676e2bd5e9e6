//! Collecting launchers that have done their work, without ever blocking a worker thread.
//!
//! A launcher is reaped a moment after its record arrived, and waiting for that moment would cost every call a
//! wake-up. So pids are put on a list, each later call looks through it, and a thread sleeps beside it for the
//! time when no later call comes.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

const EVERY: Duration = Duration::from_millis(20);
/// Rounds without work before the thread sleeps for good: while calls keep coming, none has to wake it.
const IDLE_ROUNDS: u32 = 10;

pub struct Reaper(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// Something was put on the list since the thread last looked.
    taken: bool,
    /// The thread sleeps without limit and must be woken.
    asleep: bool,
    closed: bool,
}

struct Waiting {
    pid: libc::pid_t,
    /// A cancelled child counts as alive until it is gone.
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
    /// Takes over a launcher that is ending or was told to end.
    pub fn take(&self, pid: libc::pid_t, permit: Option<OwnedSemaphorePermit>) {
        let mut state = self.0.lock();
        state.waiting.push(Waiting { pid, _permit: permit });
        state.taken = true;
        state.sweep();
        if state.asleep && !state.waiting.is_empty() {
            state.asleep = false;
            self.0.wake.notify_one();
        }
    }
}

impl Shared {
    /// The list is whole after every statement, so a panic elsewhere leaves nothing to repair.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sweep_until_closed(&self) {
        let mut state = self.lock();
        let mut idle = 0;
        loop {
            state.sweep();
            if state.closed && state.waiting.is_empty() {
                return;
            }
            idle = if state.worked() { 0 } else { idle + 1 };
            state.asleep = idle > IDLE_ROUNDS;
            state = if state.asleep {
                idle = 0;
                self.wake.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.wake.wait_timeout(state, EVERY).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

impl State {
    fn worked(&mut self) -> bool {
        std::mem::take(&mut self.taken) || !self.waiting.is_empty()
    }

    fn sweep(&mut self) {
        // SAFETY: a plain call; each pid is our own child and reaped here only. An error means it is gone.
        self.waiting.retain(|w| unsafe { libc::waitpid(w.pid, std::ptr::null_mut(), libc::WNOHANG) } == 0);
    }
}
