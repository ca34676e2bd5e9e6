//! Records the paths and addresses that a traced run asks for, with seccomp user notifications.
//!
//! The launcher installs a second filter, which reports calls with a path or an address to the daemon. The daemon reads
//! the arguments and lets each call continue, so that mounts, Landlock and the other filter decide as in every run:
//! nothing is allowed or refused by what is read here.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::process::{Pid, test_kill_process};

use super::launch_script::{PathArgument, TracedCall, traced_call};

/// Distinct paths and addresses of one run.
const MAX: usize = 20_000;
const MAX_PATH: usize = 4096;
const MAX_PACKET: usize = 512;

/// What a program wants with a path, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TracedAccess {
    /// Whether it exists, its metadata, the target of a link.
    Look,
    Read,
    Execute,
    Write,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedPath {
    pub access: Vec<TracedAccess>,
    /// It existed in the program's view of the file system when it was asked for.
    pub is_in_view: bool,
}

/// What one run asked for.
#[derive(Debug, Default)]
pub struct TraceLog(Mutex<TraceEntries>);

#[derive(Clone, Debug, Default)]
pub struct TraceEntries {
    pub paths: BTreeMap<PathBuf, TracedPath>,
    pub addresses: Vec<SocketAddr>,
    /// Names that it tried to resolve.
    pub names: Vec<String>,
    /// More than are recorded.
    pub is_cut: bool,
}

impl TraceLog {
    pub fn entries(&self) -> TraceEntries {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TraceEntries> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn add_path(&self, path: PathBuf, access: TracedAccess, is_in_view: impl FnOnce(&Path) -> bool) {
        let mut entries = self.lock();
        if entries.paths.len() >= MAX && !entries.paths.contains_key(&path) {
            entries.is_cut = true;
            return;
        }
        let is_in_view = is_in_view(&path);
        let known = entries.paths.entry(path).or_default();
        known.is_in_view |= is_in_view;
        if !known.access.contains(&access) {
            known.access.push(access);
            known.access.sort();
        }
    }

    fn add_address(&self, address: SocketAddr) {
        let mut entries = self.lock();
        if entries.addresses.len() < MAX && !entries.addresses.contains(&address) {
            entries.addresses.push(address);
        }
    }

    fn add_name(&self, name: String) {
        let mut entries = self.lock();
        if entries.names.len() < MAX && !entries.names.contains(&name) {
            entries.names.push(name);
        }
    }
}

/// Serves the notifications of one run on a thread of its own, until its last process has ended.
pub fn serve(listener: OwnedFd, log: Arc<TraceLog>, launcher: Pid) {
    std::thread::spawn(move || {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        loop {
            let mut ready = [PollFd::new(&listener, PollFlags::IN)];
            match poll(&mut ready, Some(&second)) {
                Ok(0) if test_kill_process(launcher).is_ok() => {}
                Ok(0) => return,
                Ok(_) if ready[0].revents().contains(PollFlags::IN) => answer(&listener, &log),
                Err(rustix::io::Errno::INTR) => {}
                // Hung up: no process of the run is left.
                _ => return,
            }
        }
    });
}

/// Receives one notification, records it and lets the call continue.
fn answer(listener: &OwnedFd, log: &TraceLog) {
    // SAFETY: plain integers; the kernel requires zeros.
    let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a structure of the size that the request encodes.
    if unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &mut notification) } < 0 {
        // The process was killed meanwhile.
        return;
    }
    if let Some(process) = TracedProcess::open(notification.pid) {
        process.record(&notification.data, log);
    }
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut response = libc::seccomp_notif_resp { id: notification.id, val: 0, error: 0, flags };
    // SAFETY: as above. It fails only if the process is gone.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response) };
}

/// A process that waits in a system call.
struct TracedProcess {
    pid: u32,
    memory: File,
}

impl TracedProcess {
    fn open(pid: u32) -> Option<TracedProcess> {
        Some(TracedProcess { pid, memory: File::open(format!("/proc/{pid}/mem")).ok()? })
    }

    fn record(&self, call: &libc::seccomp_data, log: &TraceLog) {
        match traced_call(i64::from(call.nr)) {
            Some(TracedCall::Paths(arguments)) => {
                for argument in arguments {
                    if let Some((path, access)) = self.path(call, *argument) {
                        log.add_path(path, access, |path| self.sees(path));
                    }
                }
            }
            Some(TracedCall::Connect) => self.address(call.args[1], call.args[2], log),
            Some(TracedCall::SendTo) => {
                self.address(call.args[4], call.args[5], log);
                self.packet(call.args[1], call.args[2], log);
            }
            Some(TracedCall::SendMany) => self.packets(call.args[1], call.args[2], log),
            None => {}
        }
    }

    fn path(&self, call: &libc::seccomp_data, argument: PathArgument) -> Option<(PathBuf, TracedAccess)> {
        let text = self.text(call.args[argument.path])?;
        if text.is_empty() {
            return None;
        }
        let path = PathBuf::from(OsStr::from_bytes(&text));
        let base = match argument.folder.map(|index| call.args[index] as i32) {
            _ if path.is_absolute() => PathBuf::from("/"),
            None | Some(libc::AT_FDCWD) => std::fs::read_link(format!("/proc/{}/cwd", self.pid)).ok()?,
            Some(fd) => std::fs::read_link(format!("/proc/{}/fd/{fd}", self.pid)).ok()?,
        };
        let access = match argument.flags {
            None => argument.access,
            Some(flags) => {
                let flags = match argument.has_structure {
                    true => u64::from_ne_bytes(self.bytes::<8>(call.args[flags])?),
                    false => call.args[flags],
                };
                let writes = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
                if flags as i32 & writes != 0 { TracedAccess::Write } else { argument.access }
            }
        };
        Some((without_dots(&base.join(path)), access))
    }

    /// Whether the path exists in the process's view of the file system.
    fn sees(&self, path: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let none = ResolveFlags::empty();
        let Ok(root) = openat2(CWD, format!("/proc/{}/root", self.pid), flags, Mode::empty(), none) else {
            return false;
        };
        let below = path.strip_prefix("/").unwrap_or(path);
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        openat2(root, below, flags | OFlags::NOFOLLOW, Mode::empty(), ResolveFlags::IN_ROOT).is_ok()
    }

    fn address(&self, at: u64, length: u64, log: &TraceLog) {
        let Some(bytes) = self.bytes::<28>(at).or_else(|| self.padded::<28, 16>(at)).filter(|_| length >= 8)
        else {
            return;
        };
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
            libc::AF_INET => {
                let ip = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
                log.add_address(SocketAddr::from((ip, port)));
            }
            libc::AF_INET6 if length >= 28 => {
                let mut ip = [0; 16];
                ip.copy_from_slice(&bytes[8..24]);
                log.add_address(SocketAddr::from((Ipv6Addr::from(ip), port)));
            }
            libc::AF_UNIX => {
                let path = self.text(at.wrapping_add(2)).filter(|path| path.starts_with(b"/"));
                if let Some(path) = path {
                    let path = without_dots(Path::new(OsStr::from_bytes(&path)));
                    log.add_path(path, TracedAccess::Read, |path| self.sees(path));
                }
            }
            _ => {}
        }
    }

    /// The name in a query to a name server.
    fn packet(&self, at: u64, length: u64, log: &TraceLog) {
        let length = (length as usize).min(MAX_PACKET);
        let mut packet = vec![0; length];
        if self.memory.read_exact_at(&mut packet, at).is_ok()
            && let Some(name) = queried_name(&packet)
        {
            log.add_name(name);
        }
    }

    fn packets(&self, at: u64, count: u64, log: &TraceLog) {
        // A `struct mmsghdr`: name, its length, vector, its length, control, its length, flags, length.
        const SIZE: u64 = 64;
        for index in 0..count.min(4) {
            let message = at.wrapping_add(index * SIZE);
            let vector = self.bytes::<8>(message.wrapping_add(16)).map(u64::from_ne_bytes);
            let Some(vector) = vector else { return };
            let (Some(base), Some(length)) =
                (self.bytes::<8>(vector), self.bytes::<8>(vector.wrapping_add(8)))
            else {
                return;
            };
            self.packet(u64::from_ne_bytes(base), u64::from_ne_bytes(length), log);
        }
    }

    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.memory.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    }

    /// The first `M` bytes, then zeros.
    fn padded<const N: usize, const M: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        bytes[..M].copy_from_slice(&self.bytes::<M>(at)?);
        Some(bytes)
    }

    /// A text that ends in NUL.
    fn text(&self, at: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        let mut chunk = [0; 256];
        while text.len() < MAX_PATH && at != 0 {
            // A pointer of the tool may be anywhere.
            let from = at.wrapping_add(text.len() as u64);
            // A read past the end of a mapping is cut short.
            let read =
                self.memory.read_at(&mut chunk, from).or_else(|_| self.read_to_page_end(&mut chunk, from));
            let read = read.ok().filter(|read| *read > 0)?;
            match chunk[..read].iter().position(|byte| *byte == 0) {
                Some(end) => {
                    text.extend_from_slice(&chunk[..end]);
                    return Some(text);
                }
                None => text.extend_from_slice(&chunk[..read]),
            }
        }
        None
    }

    fn read_to_page_end(&self, into: &mut [u8], from: u64) -> io::Result<usize> {
        let left = (4096 - from % 4096) as usize;
        let length = left.min(into.len());
        self.memory.read_at(&mut into[..length], from)
    }
}

/// Resolves `.` and `..` by their text.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            _ => {}
        }
    }
    clean
}

/// The name of a DNS query with one question.
fn queried_name(packet: &[u8]) -> Option<String> {
    let (head, mut rest) = packet.split_at_checked(12)?;
    // A standard query, one question, no answers.
    if head[2] & 0xf8 != 0 || head[4..10] != [0, 1, 0, 0, 0, 0] {
        return None;
    }
    let mut labels = Vec::new();
    loop {
        let (length, after) = rest.split_first()?;
        if *length == 0 {
            break;
        }
        let (label, after) = after.split_at_checked(usize::from(*length))?;
        let is_label = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_';
        if !label.iter().all(is_label) {
            return None;
        }
        labels.push(String::from_utf8(label.to_vec()).ok()?);
        rest = after;
    }
    (!labels.is_empty()).then(|| labels.join(".").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_query_is_read_and_nothing_else() {
        let query =
            b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03API\x07example\x03com\x00\x00\x01\x00\x01";
        assert_eq!(queried_name(query).as_deref(), Some("api.example.com"));
        assert_eq!(queried_name(b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n"), None);
        for end in 0..query.len() - 5 {
            assert_eq!(queried_name(&query[..end]), None, "{end}");
        }
    }

    #[test]
    fn dots_are_resolved() {
        assert_eq!(without_dots(Path::new("/a/./b/../c")), Path::new("/a/c"));
        assert_eq!(without_dots(Path::new("/../x")), Path::new("/x"));
    }
}
