//! Limits on a whole process tree, which the kernel cannot enforce without a cgroup: `/proc` is polled often
//! enough to stop a fork or memory bomb early.
//!
//! The tree is walked from the launcher down. Orphans are reparented to the launcher or its init, so no
//! process leaves the tree.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Pid, RawPid};
use tokio::time::{self, Interval, MissedTickBehavior};

use super::Confinement;

/// Shorter than `INTERVAL`: a fork bomb grows faster than memory use.
const PROCESS_INTERVAL: Duration = Duration::from_millis(20);
const INTERVAL: Duration = Duration::from_millis(50);
/// The launcher and its init.
const LAUNCHER_PROCESSES: u64 = 2;

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitExceeded {
    Memory(u64),
    Cpu(Duration),
    Processes(u64),
}

pub struct LimitMonitor {
    memory: Option<u64>,
    cpu: Option<Duration>,
    processes: Option<u64>,
    launcher: RawPid,
    period: Option<Interval>,
}

impl LimitMonitor {
    pub fn new(confinement: &Confinement, launcher: Pid) -> LimitMonitor {
        let launcher = launcher.as_raw_pid();
        let Confinement { memory, cpu, processes, .. } = *confinement;
        let period = match (processes, memory, cpu) {
            (Some(_), _, _) => Some(PROCESS_INTERVAL),
            (None, None, None) => None,
            _ => Some(INTERVAL),
        };
        let period = period.map(|period| {
            let mut interval = time::interval_at(time::Instant::now() + period, period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        });
        LimitMonitor { memory, cpu, processes, launcher, period }
    }

    /// Returns when a limit is exceeded. Cancel-safe.
    pub async fn exceeded(&mut self) -> LimitExceeded {
        let Some(period) = &mut self.period else { return std::future::pending().await };
        loop {
            period.tick().await;
            let usage = TreeUsage::of_tree(self.launcher, self.processes);
            if let Some(limit) =
                self.processes.filter(|limit| usage.tasks > limit.saturating_add(LAUNCHER_PROCESSES))
            {
                return LimitExceeded::Processes(limit);
            }
            if let Some(limit) = self.cpu.filter(|limit| usage.cpu > *limit) {
                return LimitExceeded::Cpu(limit);
            }
            if let Some(limit) = self.memory
                && usage.resident > limit
                && usage.proportional_memory() > limit
            {
                return LimitExceeded::Memory(limit);
            }
        }
    }
}

/// Resource usage of a tree at one moment.
#[derive(Default)]
struct TreeUsage {
    tasks: u64,
    cpu: Duration,
    /// Shared memory is counted once per process.
    resident: u64,
    pids: Vec<RawPid>,
}

impl TreeUsage {
    /// Stops counting above `max_tasks` processes.
    fn of_tree(launcher: RawPid, max_tasks: Option<u64>) -> TreeUsage {
        let max_tasks = max_tasks.map_or(u64::MAX, |limit| limit.saturating_add(LAUNCHER_PROCESSES));
        let mut total = TreeUsage::default();
        let mut left = vec![launcher];
        let mut seen = HashSet::new();
        while let Some(pid) = left.pop() {
            if !seen.insert(pid) || total.tasks > max_tasks {
                continue;
            }
            total.add(pid);
            let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for thread in threads {
                let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
                left.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<RawPid>().ok()));
            }
        }
        total
    }

    fn add(&mut self, pid: RawPid) {
        let Some(stat) =
            fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|text| Stat::read(&text))
        else {
            return;
        };
        self.tasks += stat.threads.max(1);
        self.cpu += stat.cpu;
        self.resident = self.resident.saturating_add(stat.resident);
        self.pids.push(pid);
    }

    /// Resident bytes with shared pages divided among their users (PSS): exact but slow to read. A process
    /// whose PSS cannot be read counts with its full resident size.
    fn proportional_memory(&self) -> u64 {
        self.pids.iter().map(|pid| pss(*pid).unwrap_or_else(|| resident(*pid))).sum()
    }
}

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    threads: u64,
    /// Includes children that were waited for.
    cpu: Duration,
    resident: u64,
}

impl Stat {
    fn read(text: &str) -> Option<Stat> {
        // The name may contain any byte, including parentheses.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first field after the name is field 3 in proc(5).
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let ticks = (14..=17).map(number).sum::<Option<u64>>()?;
        let (per_second, page) = (clock_ticks_per_second(), page_size() as u64);
        Some(Stat {
            threads: number(20)?,
            cpu: Duration::from_millis(ticks * 1000 / per_second),
            resident: number(24)?.saturating_mul(page),
        })
    }
}

fn pss(pid: RawPid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn resident(pid: RawPid) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|text| Stat::read(&text));
    stat.map_or(0, |stat| stat.resident)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let text = "7 (a) R 9 9 (b) S 1 7 7 0 -1 4194560 1 2 3 4 100 50 25 25 20 0 6 0 99 1000 3 18446744073709551615";
        let stat = Stat::read(text).unwrap();
        assert_eq!((stat.threads, stat.cpu), (6, Duration::from_secs(2)));
        assert_eq!(stat.resident % 3, 0);
    }

    #[test]
    fn the_tree_of_this_process_is_seen() {
        let me = std::process::id() as RawPid;
        let seen = TreeUsage::of_tree(me, None);
        assert!(seen.tasks >= 1 && seen.resident > 1 << 20 && seen.pids.contains(&me));
        assert!(seen.proportional_memory() > 0);
    }
}
