//! A process tree seen through `/proc`, for machines where no cgroup can be created.
//!
//! The tree is walked from the launcher down. Orphans are reparented to the launcher or its init, so no process
//! leaves the tree.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Pid, RawPid};

use super::machine_watch::Taken;
use super::memory::held_memory;
use super::{LimitExceeded, TreeLimits};

/// The launcher and its init.
const LAUNCHER_PROCESSES: u64 = 2;

pub struct WatchedTree {
    launcher: RawPid,
    limits: TreeLimits,
    processes: HashMap<RawPid, Stat>,
    tasks: u64,
    /// Memory when it was last counted.
    held: u64,
    /// Time of processes that are gone, as last seen: whoever waited for them has it too, but nobody may have.
    departed: Duration,
}

impl WatchedTree {
    pub fn new(launcher: Pid, limits: TreeLimits) -> WatchedTree {
        let launcher = launcher.as_raw_pid();
        WatchedTree {
            launcher,
            limits,
            processes: HashMap::new(),
            tasks: 0,
            held: 0,
            departed: Duration::ZERO,
        }
    }

    /// Reads the tree; whether it has done anything since the last time.
    pub fn look(&mut self) -> bool {
        let max = self.limits.processes.map_or(u64::MAX, |limit| limit.saturating_add(LAUNCHER_PROCESSES));
        let (processes, tasks) = read_tree(self.launcher, max);
        let gone = self.processes.iter().filter(|(pid, _)| !processes.contains_key(pid));
        self.departed += gone.map(|(_, stat)| stat.own_cpu).sum::<Duration>();
        let moved = processes != self.processes;
        (self.processes, self.tasks) = (processes, tasks);
        moved
    }

    /// Of the whole tree. Children that were waited for are in the time of their parents, the others were seen
    /// while they ran.
    pub fn cpu(&self) -> Duration {
        let waited: Duration = self.processes.values().map(|stat| stat.own_cpu + stat.waited_cpu).sum();
        let seen: Duration = self.processes.values().map(|stat| stat.own_cpu).sum();
        waited.max(seen + self.departed)
    }

    /// Memory is slow to read and cannot have grown in a tree that did nothing.
    pub fn exceeded(&mut self, moved: bool) -> Option<LimitExceeded> {
        let over = |limit: &u64| self.tasks > limit.saturating_add(LAUNCHER_PROCESSES);
        if let Some(limit) = self.limits.processes.filter(over) {
            return Some(LimitExceeded::Processes(limit));
        }
        if moved && self.limits.memory.is_some() {
            self.held = held_memory(self.processes.keys().copied());
        }
        self.limits.memory.filter(|limit| self.held > *limit).map(LimitExceeded::Memory)
    }

    /// Whether what was taken from the machine since the tree was read is more than half of what it may still take.
    pub fn could_exceed(&self, then: Taken, now: Taken) -> bool {
        let is_much = |limit: Option<u64>, used: u64, taken: u64| {
            limit.is_some_and(|limit| taken >= limit.saturating_sub(used) / 2)
        };
        is_much(self.limits.memory, self.held, now.memory - then.memory)
            || is_much(self.limits.processes, self.tasks, now.tasks - then.tasks)
    }
}

/// The processes of a tree and how many threads they have; stops above `max_tasks`.
fn read_tree(launcher: RawPid, max_tasks: u64) -> (HashMap<RawPid, Stat>, u64) {
    let mut found = HashMap::new();
    let mut tasks = 0;
    let mut left = vec![launcher];
    while let Some(pid) = left.pop() {
        if found.contains_key(&pid) || tasks > max_tasks {
            continue;
        }
        let Some(stat) =
            fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|text| Stat::read(&text))
        else {
            continue;
        };
        tasks += stat.threads.max(1);
        let threads = match stat.threads {
            0 | 1 => vec![format!("/proc/{pid}/task/{pid}/children")],
            _ => fs::read_dir(format!("/proc/{pid}/task"))
                .into_iter()
                .flatten()
                .flatten()
                .map(|thread| format!("{}/children", thread.path().display()))
                .collect(),
        };
        found.insert(pid, stat);
        for thread in threads {
            let children = fs::read_to_string(thread).unwrap_or_default();
            left.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<RawPid>().ok()));
        }
    }
    (found, tasks)
}

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    threads: u64,
    own_cpu: Duration,
    /// Of children that were waited for.
    waited_cpu: Duration,
    resident: u64,
    /// Page faults without and with a read: a process that gets memory has them.
    faults: u64,
}

impl Stat {
    fn read(text: &str) -> Option<Stat> {
        // The name may contain any byte, including parentheses.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first field after the name is field 3 in proc(5).
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let time = |field: usize| {
            let ticks = number(field)? + number(field + 1)?;
            Some(Duration::from_millis(ticks * 1000 / clock_ticks_per_second()))
        };
        Some(Stat {
            threads: number(20)?,
            own_cpu: time(14)?,
            waited_cpu: time(16)?,
            resident: number(24)?.saturating_mul(page_size() as u64),
            faults: number(10)?.saturating_add(number(12)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let text = "7 (a) R 9 9 (b) S 1 7 7 0 -1 4194560 1 2 3 4 100 50 25 25 20 0 6 0 99 1000 3 18446744073709551615";
        let stat = Stat::read(text).unwrap();
        assert_eq!(stat.threads, 6);
        assert_eq!(
            (stat.own_cpu, stat.waited_cpu),
            (Duration::from_millis(1500), Duration::from_millis(500))
        );
        assert_eq!((stat.resident % 3, stat.faults), (0, 4));
    }

    #[test]
    fn the_tree_of_this_process_is_seen() {
        let me = Pid::from_raw(std::process::id() as RawPid).unwrap();
        let limits = TreeLimits { memory: Some(1 << 40), ..TreeLimits::default() };
        let mut tree = WatchedTree::new(me, limits);
        assert!(tree.look(), "a tree that was not seen before has moved");
        assert!(tree.tasks >= 1 && tree.processes.contains_key(&me.as_raw_pid()));
        assert!(held_memory(tree.processes.keys().copied()) > 1 << 20);
        assert_eq!(tree.exceeded(true), None);
        tree.limits.memory = Some(1 << 20);
        assert_eq!(tree.exceeded(true), Some(LimitExceeded::Memory(1 << 20)));
    }
}
