//! Cgroups of our own, where they can be created: the kernel counts and limits everything that a process tree holds,
//! also memory in a memfd, shared memory and socket buffers, and the time of children that nobody waited for.
//!
//! A group is used again after its tree is dead, because creating one costs more than the rest of a start.

mod find;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fds::above_stdio;
use super::limits::TreeLimits;

/// Unused groups that are held.
const MAX_FREE: usize = 64;

/// Creates and holds the groups of this daemon.
pub struct Cgroups {
    version: Version,
    /// This daemon's folders, one per controller in version 1.
    folders: Vec<PathBuf>,
    /// Longest unused first, so that the kernel has had time to free what the last tree held.
    free: Mutex<Vec<GroupFiles>>,
    next: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// The group of one process tree; given back when it is dropped.
pub struct Group {
    files: Option<GroupFiles>,
    owner: Arc<Cgroups>,
    /// What the counters said when it was taken.
    start: Counters,
}

struct GroupFiles {
    limits: TreeLimits,
    /// The folder (version 2) or the files `tasks` (version 1), for the launcher.
    entries: Vec<OwnedFd>,
    folders: Vec<PathBuf>,
    memory_events: File,
    pids_events: File,
    cpu: File,
    memory: File,
    members: File,
}

#[derive(Clone, Copy, Default)]
struct Counters {
    memory_kills: u64,
    refused_forks: u64,
    cpu: Duration,
}

/// What has happened in a group since it was taken.
pub struct GroupUsage {
    pub memory_exceeded: bool,
    pub processes_exceeded: bool,
    pub cpu: Duration,
}

impl Cgroups {
    /// `Err` with the reason if this process may not create groups that limit memory and processes.
    pub fn find() -> Result<Arc<Cgroups>, String> {
        let (version, parents) = find::parents()?;
        parents.iter().for_each(|parent| find::remove_abandoned(parent));
        let name = find::own_name();
        let folders = parents.iter().map(|parent| parent.join(&name)).collect();
        let (free, next) = (Mutex::default(), AtomicU64::new(0));
        let cgroups = Arc::new(Cgroups { version, folders, free, next });
        let limits = TreeLimits { memory: Some(1 << 30), processes: Some(64), cpu: None };
        let tried = cgroups.prepare().and_then(|()| cgroups.take(limits).map(drop));
        tried.map(|()| cgroups).map_err(|error| format!("a cgroup cannot be created: {error}"))
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// An empty group with these limits.
    pub fn take(self: &Arc<Self>, limits: TreeLimits) -> io::Result<Group> {
        // The time is watched, not limited.
        let limits = TreeLimits { cpu: None, ..limits };
        let mut files = None;
        let mut at = 0;
        let mut free = self.free();
        while files.is_none() && at < free.len() {
            if free[at].limits != limits || !free[at].is_empty() {
                at += 1;
                continue;
            }
            let found = free.remove(at);
            // One that is not clean is removed.
            files = found.is_clean().then_some(found);
        }
        drop(free);
        let files = files.map_or_else(|| self.create(limits), Ok)?;
        let start = files.counters().ok_or(io::ErrorKind::InvalidData)?;
        Ok(Group { files: Some(files), owner: Arc::clone(self), start })
    }

    /// Creates this daemon's folders, which hand the controllers down.
    fn prepare(&self) -> io::Result<()> {
        for folder in &self.folders {
            match fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            if self.version == Version::V2 {
                fs::write(folder.join("cgroup.subtree_control"), "+memory +pids")?;
            }
        }
        Ok(())
    }

    fn create(&self, limits: TreeLimits) -> io::Result<GroupFiles> {
        let name = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let folders: Vec<PathBuf> = self.folders.iter().map(|folder| folder.join(&name)).collect();
        for folder in &folders {
            fs::create_dir(folder).or_else(|error| match error.kind() {
                // Someone removed our folder while it was empty.
                io::ErrorKind::NotFound => self.prepare().and_then(|()| fs::create_dir(folder)),
                _ => Err(error),
            })?;
        }
        let created = match self.version {
            Version::V1 => GroupFiles::version_1(limits, folders.clone()),
            Version::V2 => GroupFiles::version_2(limits, folders.clone()),
        };
        created.inspect_err(|_| {
            folders.iter().for_each(|folder| {
                let _ = fs::remove_dir(folder);
            });
        })
    }

    /// The list is consistent after every statement, so a poisoned lock can be used.
    fn free(&self) -> MutexGuard<'_, Vec<GroupFiles>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        self.free().clear();
        self.folders.iter().for_each(|folder| find::remove(folder));
    }
}

impl Group {
    /// The descriptors that the launcher needs to start a process in it.
    pub fn entries(&self) -> &[OwnedFd] {
        self.files.as_ref().map_or(&[], |files| &files.entries)
    }

    pub fn version(&self) -> Version {
        self.owner.version
    }

    pub fn usage(&self) -> GroupUsage {
        let now = self.files.as_ref().and_then(GroupFiles::counters).unwrap_or(self.start);
        GroupUsage {
            memory_exceeded: now.memory_kills > self.start.memory_kills,
            processes_exceeded: now.refused_forks > self.start.refused_forks,
            cpu: now.cpu.saturating_sub(self.start.cpu),
        }
    }
}

impl Drop for Group {
    /// The tree may still be dying: the next user looks whether the group is empty.
    fn drop(&mut self) {
        let Some(files) = self.files.take() else { return };
        let mut free = self.owner.free();
        free.push(files);
        if free.len() > MAX_FREE {
            free.remove(0);
        }
    }
}

impl GroupFiles {
    fn version_2(limits: TreeLimits, folders: Vec<PathBuf>) -> io::Result<GroupFiles> {
        let [folder] = &folders[..] else { return Err(io::ErrorKind::InvalidInput.into()) };
        if let Some(memory) = limits.memory {
            write(folder, "memory.max", memory)?;
            // Absent without swap or before 4.19; then nothing can be swapped, or one process is killed at a time.
            let _ = write(folder, "memory.swap.max", 0);
            let _ = write(folder, "memory.oom.group", 1);
        }
        if let Some(processes) = limits.processes {
            write(folder, "pids.max", processes)?;
        }
        let entry = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(folder)?;
        Ok(GroupFiles {
            limits,
            entries: vec![above_stdio(entry.into())?],
            memory_events: open(folder, "memory.events")?,
            pids_events: open(folder, "pids.events")?,
            cpu: open(folder, "cpu.stat")?,
            memory: open(folder, "memory.current")?,
            members: open(folder, "cgroup.procs")?,
            folders,
        })
    }

    fn version_1(limits: TreeLimits, folders: Vec<PathBuf>) -> io::Result<GroupFiles> {
        let [memory, pids, cpu] = &folders[..] else { return Err(io::ErrorKind::InvalidInput.into()) };
        if let Some(limit) = limits.memory {
            write(memory, "memory.limit_in_bytes", limit)?;
            // Absent if swap or TCP buffers are not counted by this kernel.
            let _ = write(memory, "memory.memsw.limit_in_bytes", limit);
            let _ = write(memory, "memory.kmem.tcp.limit_in_bytes", limit);
        }
        if let Some(processes) = limits.processes {
            write(pids, "pids.max", processes)?;
        }
        // Moving one thread by `tasks` takes no lock that all forks of the machine wait for.
        let entry = |folder: &PathBuf| {
            let file = OpenOptions::new().write(true).open(folder.join("tasks"))?;
            above_stdio(file.into())
        };
        Ok(GroupFiles {
            limits,
            entries: folders.iter().map(entry).collect::<io::Result<_>>()?,
            memory_events: open(memory, "memory.oom_control")?,
            pids_events: open(pids, "pids.events")?,
            cpu: open(cpu, "cpuacct.usage")?,
            memory: open(memory, "memory.usage_in_bytes")?,
            members: open(pids, "cgroup.procs")?,
            folders,
        })
    }

    fn counters(&self) -> Option<Counters> {
        let cpu = read(&self.cpu)?;
        let cpu = match field(&cpu, "usage_usec") {
            Some(microseconds) => Duration::from_micros(microseconds),
            None => Duration::from_nanos(cpu.trim().parse().ok()?),
        };
        let memory_kills = field(&read(&self.memory_events)?, "oom_kill")?;
        let refused_forks = field(&read(&self.pids_events)?, "max")?;
        Some(Counters { memory_kills, refused_forks, cpu })
    }

    /// Whether no process is in it; false also if that cannot be read.
    fn is_empty(&self) -> bool {
        self.members.read_at(&mut [0; 8], 0).is_ok_and(|n| n == 0)
    }

    /// Files that the last tree read or wrote stay charged to the group. They are reclaimed under pressure, but a
    /// group that still holds much may also hold what cannot be.
    fn is_clean(&self) -> bool {
        let held = read(&self.memory).and_then(|text| text.trim().parse::<u64>().ok());
        held.is_some_and(|held| held <= self.limits.memory.unwrap_or(u64::MAX) / 4)
    }
}

impl Drop for GroupFiles {
    fn drop(&mut self) {
        for folder in &self.folders {
            // One with processes stays until the next daemon removes it.
            let _ = fs::remove_dir(folder);
        }
    }
}

fn open(folder: &Path, name: &str) -> io::Result<File> {
    Ok(File::from(above_stdio(File::open(folder.join(name))?.into())?))
}

fn write(folder: &Path, name: impl AsRef<OsStr>, value: u64) -> io::Result<()> {
    fs::write(folder.join(name.as_ref()), value.to_string())
}

/// A small file of the kernel, from its beginning.
fn read(file: &File) -> Option<String> {
    let mut bytes = [0; 1024];
    let n = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..n]).into_owned())
}

/// The number after `name` on its line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}
