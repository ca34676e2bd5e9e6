//! Limits on a whole process tree: memory, processes and CPU time, at every sandbox level.
//!
//! In a cgroup the kernel counts and enforces; here its counters are read now and then. Where no group can be
//! created, the tree is watched through `/proc` ([`watched_tree`]).

mod machine_watch;
mod memory;
mod watched_tree;

use std::thread::available_parallelism;
use std::time::Duration;

use rustix::process::Pid;
use tokio::sync::watch;
use tokio::time::{self, Instant};

use super::Confinement;
use super::cgroup::Group;
pub use machine_watch::MachineWatch;
use machine_watch::Taken;
use watched_tree::WatchedTree;

/// The kernel enforces the limits of a group; this is how soon the end of a tree that met one is noticed.
const GROUP_INTERVAL: Duration = Duration::from_millis(500);
/// While a watched tree does something. A fork bomb and a fast allocation are stopped early.
const ACTIVE_INTERVAL: Duration = Duration::from_millis(20);
/// While it does nothing; memory or processes that appear on the machine are a reason to look earlier.
const IDLE_INTERVAL: Duration = Duration::from_secs(4);
/// Between two looks for that reason.
const MACHINE_INTERVAL: Duration = Duration::from_millis(100);

/// The limits that need more than an rlimit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeLimits {
    pub memory: Option<u64>,
    pub cpu: Option<Duration>,
    pub processes: Option<u64>,
}

impl TreeLimits {
    pub fn of(confinement: &Confinement) -> TreeLimits {
        let Confinement { memory, cpu, processes, .. } = *confinement;
        TreeLimits { memory, cpu, processes }
    }

    pub fn is_empty(self) -> bool {
        self == TreeLimits::default()
    }
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitExceeded {
    Memory(u64),
    Cpu(Duration),
    Processes(u64),
}

pub struct LimitMonitor {
    limits: TreeLimits,
    source: Source,
    /// When the source was read last and is read next; `None` if there is no limit.
    last: Instant,
    next: Option<Instant>,
}

enum Source {
    None,
    Group(Group),
    Watched {
        tree: WatchedTree,
        machine: watch::Receiver<Taken>,
        /// What had been taken from the machine when the tree was read.
        taken: Taken,
        interval: Duration,
    },
}

impl LimitMonitor {
    pub fn new(
        confinement: &Confinement,
        launcher: Pid,
        group: Option<Group>,
        machine: &MachineWatch,
    ) -> LimitMonitor {
        let limits = TreeLimits::of(confinement);
        let source = match group {
            _ if limits.is_empty() => Source::None,
            Some(group) => Source::Group(group),
            None => {
                let machine = machine.subscribe();
                let (tree, taken) = (WatchedTree::new(launcher, limits), *machine.borrow());
                Source::Watched { tree, machine, taken, interval: ACTIVE_INTERVAL }
            }
        };
        let mut monitor = LimitMonitor { limits, source, last: Instant::now(), next: None };
        monitor.schedule(Duration::ZERO);
        monitor
    }

    /// Returns when a limit is exceeded. Cancel-safe.
    pub async fn exceeded(&mut self) -> LimitExceeded {
        loop {
            let Some(next) = self.next else { return std::future::pending().await };
            match &mut self.source {
                Source::Watched { tree, machine, taken, .. } => {
                    tokio::select! {
                        () = time::sleep_until(next) => {}
                        Ok(()) = machine.changed() => {
                            if tree.could_exceed(*taken, *machine.borrow_and_update()) {
                                self.next = Some(next.min(self.last + MACHINE_INTERVAL));
                            }
                            continue;
                        }
                    }
                }
                _ => time::sleep_until(next).await,
            }
            if let Some(exceeded) = self.look() {
                return exceeded;
            }
        }
    }

    /// The limit that explains how the tree ended: the kernel kills a process for memory without asking us.
    pub fn at_end(&self) -> Option<LimitExceeded> {
        match &self.source {
            Source::Group(group) if group.usage().memory_exceeded => {
                self.limits.memory.map(LimitExceeded::Memory)
            }
            _ => None,
        }
    }

    fn look(&mut self) -> Option<LimitExceeded> {
        let (exceeded, cpu) = match &mut self.source {
            Source::None => (None, Duration::ZERO),
            Source::Group(group) => {
                let usage = group.usage();
                let memory = self.limits.memory.filter(|_| usage.memory_exceeded).map(LimitExceeded::Memory);
                let processes = self.limits.processes.filter(|_| usage.processes_exceeded);
                (memory.or(processes.map(LimitExceeded::Processes)), usage.cpu)
            }
            Source::Watched { tree, machine, taken, interval } => {
                *taken = *machine.borrow();
                let moved = tree.look();
                *interval = if moved { ACTIVE_INTERVAL } else { (*interval * 2).min(IDLE_INTERVAL) };
                (tree.exceeded(moved), tree.cpu())
            }
        };
        let over_cpu = self.limits.cpu.filter(|limit| cpu > *limit).map(LimitExceeded::Cpu);
        self.schedule(cpu);
        exceeded.or(over_cpu)
    }

    fn schedule(&mut self, cpu: Duration) {
        let interval = match &self.source {
            Source::None => return,
            Source::Group(_) => GROUP_INTERVAL,
            Source::Watched { interval, .. } => *interval,
        };
        // Before this time the limit cannot be reached, even with all processors.
        let left = self.limits.cpu.map(|limit| {
            let processors = available_parallelism().map_or(1, |n| n.get() as u32);
            (limit.saturating_sub(cpu) / processors).max(ACTIVE_INTERVAL)
        });
        self.last = Instant::now();
        self.next = Some(self.last + left.map_or(interval, |left| left.min(interval)));
    }
}
