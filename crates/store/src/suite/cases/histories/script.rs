//! The faults of a history: at most one at a time, and the writer waits until the whole group has been queued.

use crate::sqlite::faults::{AFTER_SYNC, BEFORE_COMMIT, Fault, Faults, WOKEN};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex};

/// A fault the `nth` time that a point is passed, from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedFault {
    pub point: &'static str,
    pub nth: usize,
    pub fault: Fault,
}

pub struct FaultScript {
    log: PathBuf,
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Default)]
struct State {
    hold: bool,
    planned: Option<PlannedFault>,
    passed: usize,
    fired: bool,
    log_before: Vec<u8>,
    /// Length of the WAL after the last synced commit that wrote something.
    synced: Option<u64>,
}

impl FaultScript {
    pub fn new(log: PathBuf) -> FaultScript {
        FaultScript { log, state: Mutex::default(), opened: Condvar::new() }
    }

    /// Plans a fault, and holds back the writes of a group until [`FaultScript::release`].
    pub fn hold(&self, writes: usize, planned: Option<PlannedFault>) {
        *self.state.lock().unwrap() = State { hold: writes > 1, planned, ..State::default() };
    }

    pub fn release(&self) {
        self.state.lock().unwrap().hold = false;
        self.opened.notify_all();
    }

    /// Whether the planned fault has happened, and the length of the WAL at the last sync since `hold`.
    pub fn happened(&self) -> (bool, Option<u64>) {
        let state = self.state.lock().unwrap();
        (state.fired, state.synced)
    }

    fn log(&self) -> Vec<u8> {
        std::fs::read(&self.log).unwrap_or_default()
    }
}

impl Faults for FaultScript {
    fn is_held(&self) -> bool {
        self.state.lock().unwrap().hold
    }

    fn at(&self, point: &'static str) -> Fault {
        let mut state = self.state.lock().unwrap();
        while point == WOKEN && state.hold {
            state = self.opened.wait(state).unwrap();
        }
        if point == BEFORE_COMMIT {
            state.log_before = self.log();
        }
        if point == AFTER_SYNC {
            let log = self.log();
            // A commit without changes writes and syncs nothing. The length alone does not show that: after a
            // power cut the WAL may end in garbage that is overwritten.
            if log != state.log_before {
                state.synced = Some(log.len() as u64);
            }
        }
        let Some(planned) = state.planned.filter(|planned| planned.point == point) else {
            return Fault::None;
        };
        state.passed += 1;
        if state.fired || state.passed != planned.nth + 1 {
            return Fault::None;
        }
        state.fired = true;
        planned.fault
    }
}
