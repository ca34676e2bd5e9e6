//! Watches memory and processes of the whole machine, so that trees which do nothing need not be looked at: what a
//! tree takes, the machine has lost.

use std::fs;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

const INTERVAL: Duration = Duration::from_millis(20);
/// What must be taken before it is told.
const MEMORY_STEP: u64 = 32 << 20;
const TASKS_STEP: u64 = 16;

/// One thread for all trees; it sleeps while there is none.
pub struct MachineWatch(Arc<Shared>);

/// What was taken from the machine since the watch began; what was given back is not subtracted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    pub memory: u64,
    pub tasks: u64,
}

struct Shared {
    taken: watch::Sender<Taken>,
    closed: Mutex<bool>,
    wake: Condvar,
}

#[derive(Clone, Copy)]
struct Machine {
    available: u64,
    tasks: u64,
}

impl MachineWatch {
    pub fn start() -> io::Result<MachineWatch> {
        let taken = watch::Sender::new(Taken::default());
        let shared = Arc::new(Shared { taken, closed: Mutex::new(false), wake: Condvar::new() });
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("machine-watch".into()).spawn(move || theirs.watch_until_closed())?;
        Ok(MachineWatch(shared))
    }

    /// Changes whenever more than a step was taken.
    pub fn subscribe(&self) -> watch::Receiver<Taken> {
        let receiver = self.0.taken.subscribe();
        let _closed = self.0.closed.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.wake.notify_one();
        receiver
    }
}

impl Drop for MachineWatch {
    fn drop(&mut self) {
        *self.0.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.wake.notify_one();
    }
}

impl Shared {
    fn watch_until_closed(&self) {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = None;
        let mut taken = *self.taken.borrow();
        while !*closed {
            if self.taken.receiver_count() == 0 {
                before = None;
                closed = self.wake.wait(closed).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(closed);
            before = self.compare(before, &mut taken);
            thread::sleep(INTERVAL);
            closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds what was taken since `before`; returns what to compare with next.
    fn compare(&self, before: Option<Machine>, taken: &mut Taken) -> Option<Machine> {
        let now = Machine::read()?;
        let before = before.unwrap_or(now);
        taken.memory += before.available.saturating_sub(now.available);
        taken.tasks += now.tasks.saturating_sub(before.tasks);
        let told = *self.taken.borrow();
        if taken.memory >= told.memory + MEMORY_STEP || taken.tasks >= told.tasks + TASKS_STEP {
            self.taken.send_replace(*taken);
        }
        Some(now)
    }
}

impl Machine {
    fn read() -> Option<Machine> {
        let memory = fs::read_to_string("/proc/meminfo").ok()?;
        let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let available = available.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024;
        // `0.00 0.01 0.05 RUNNING/ALL LAST`
        let load = fs::read_to_string("/proc/loadavg").ok()?;
        let tasks = load.split(' ').nth(3)?.split_once('/')?.1.parse().ok()?;
        Some(Machine { available, tasks })
    }
}
