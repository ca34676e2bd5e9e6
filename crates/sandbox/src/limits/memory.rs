//! What the processes of a tree hold, counted without a cgroup: resident memory, shared memory that no process has
//! mapped or touched, and the buffers of sockets.
//!
//! Not visible here are descriptors that wait in a socket, of which the kernel lets a user have as many as files.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, RawPid, pidfd_getfd, pidfd_open};

use rustix::param::page_size;

/// How `/proc/PID/maps` names shared memory without a file.
const SHARED_ANONYMOUS: &str = "/dev/zero (deleted)";
const MEMFD: &str = "/memfd:";

/// Bytes that these processes hold.
pub fn held_memory(processes: impl Iterator<Item = RawPid>) -> u64 {
    let mut held = HeldMemory::default();
    processes.for_each(|pid| held.add(pid));
    held.private + held.mapped_shared.max(held.shared) + held.sockets
}

#[derive(Default)]
struct HeldMemory {
    /// Resident pages that are not shared memory; pages of files count in equal parts for all that map them.
    private: u64,
    /// Resident pages of shared memory.
    mapped_shared: u64,
    /// Shared memory by its whole size, each piece once: pages stay although no process has them mapped.
    shared: u64,
    sockets: u64,
    /// Device and inode of the pieces and sockets that were counted.
    seen: HashSet<(u64, u64)>,
}

impl HeldMemory {
    fn add(&mut self, pid: RawPid) {
        match proportional(pid) {
            Some((all, shared)) => {
                self.private += all.saturating_sub(shared);
                self.mapped_shared += shared;
            }
            // A process that made itself unreadable counts with all that it has mapped, one that exits with nothing.
            None => self.private += resident(pid).unwrap_or(0),
        }
        self.add_mappings(pid);
        self.add_descriptors(pid);
    }

    /// `START-END PERMISSIONS OFFSET DEVICE INODE PATH`
    fn add_mappings(&mut self, pid: RawPid) {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for line in maps.lines().filter(|line| line.ends_with(SHARED_ANONYMOUS)) {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let (Some(range), Some(inode)) = (fields.first(), fields.get(4)) else { continue };
            let ends = range.split_once('-').map(|(start, end)| {
                [start, end].map(|address| u64::from_str_radix(address, 16).unwrap_or_default())
            });
            let piece = (u64::MAX, inode.parse().unwrap_or_default());
            if let Some([start, end]) = ends
                && self.seen.insert(piece)
            {
                self.shared += end.saturating_sub(start);
            }
        }
    }

    fn add_descriptors(&mut self, pid: RawPid) {
        let mut pidfd = None;
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let Ok(target) = fs::read_link(entry.path()) else { continue };
            let target = target.to_string_lossy();
            if target.starts_with(MEMFD) {
                let Ok(meta) = fs::metadata(entry.path()) else { continue };
                if self.seen.insert((meta.dev(), meta.ino())) {
                    self.shared += meta.blocks() * 512;
                }
            } else if let Some(inode) = target.strip_prefix("socket:[") {
                let inode = inode.trim_end_matches(']').parse().unwrap_or_default();
                let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
                if self.seen.insert((0, inode))
                    && let Some(number) = number
                    && let Some(pidfd) = pidfd.get_or_insert_with(|| open(pid))
                    && let Ok(socket) = pidfd_getfd(&*pidfd, number, PidfdGetfdFlags::empty())
                {
                    self.sockets += socket_memory(&socket);
                }
            }
        }
    }
}

fn open(pid: RawPid) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// What a socket has received and sent. What a UNIX socket has received is counted by its sender too, unless that
/// one was closed: better twice than not at all.
fn socket_memory(socket: &OwnedFd) -> u64 {
    const RECEIVED: usize = 0;
    const SENT: usize = 2;
    let mut memory = [0u32; 9];
    let mut length = size_of_val(&memory) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    unsafe {
        let into = memory.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, into, &mut length);
    }
    let unread = rustix::io::ioctl_fionread(socket).unwrap_or(0);
    u64::from(memory[RECEIVED]) + u64::from(memory[SENT]) + unread
}

/// Resident bytes with shared pages divided among their users (PSS), and the part of it that is shared memory.
fn proportional(pid: RawPid) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    Some((field("Pss:")?, field("Pss_Shmem:").unwrap_or(0)))
}

/// `SIZE RESIDENT …` in pages.
fn resident(pid: RawPid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    Some(text.split(' ').nth(1)?.parse::<u64>().ok()?.saturating_mul(page_size() as u64))
}
