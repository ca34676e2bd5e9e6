//! An empty ipc namespace, created once and joined by every tool.
//!
//! Creating it for each call would cost too much. Tools cannot communicate through it: the seccomp filter denies the
//! System V and POSIX IPC calls. Network namespaces are used by one tool at a time ([`crate::network_pool`]).

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::image::Image;
use crate::spawn::SpawnArgs;
use crate::{Command, Confinement, TreeLevel, fds, record};
use toolyard_launcher::script;

/// Descriptors that keep the namespaces alive and are passed to launchers.
pub struct SharedNamespaces {
    ipc: OwnedFd,
    /// The user namespace that owns all others, if the daemon is not root; it must be joined first.
    users: Option<OwnedFd>,
}

/// Timeout for the process that creates the namespaces of an ordinary user.
const LIMIT: Duration = Duration::from_secs(2);

impl SharedNamespaces {
    /// `None` if they cannot be created; each tool then gets its own.
    pub fn new(level: TreeLevel, image: &Image) -> Option<SharedNamespaces> {
        match level {
            TreeLevel::PidNamespace => SharedNamespaces::of_root(),
            TreeLevel::UserPidNamespace => SharedNamespaces::of_user(image),
            TreeLevel::Subreaper => None,
        }
    }

    fn of_root() -> Option<SharedNamespaces> {
        // Namespaces belong to a thread; the descriptors keep them alive after this thread ends.
        let namespaces = std::thread::spawn(|| {
            // SAFETY: the thread keeps its file descriptors.
            unsafe { unshare_unsafe(UnshareFlags::NEWIPC) }.ok()?;
            let ipc = File::open("/proc/thread-self/ns/ipc").ok()?;
            Some(SharedNamespaces { ipc: fds::above_stdio(ipc.into()).ok()?, users: None })
        });
        namespaces.join().ok().flatten()
    }

    /// A multithreaded process cannot create a user namespace, so a helper is started in new namespaces.
    fn of_user(image: &Image) -> Option<SharedNamespaces> {
        let (control, control_theirs) = fds::socket_pair().ok()?;
        let (stdin_theirs, _stdin) = fds::pipe().ok()?;
        let (_output, output_theirs) = fds::pipe().ok()?;
        let namespaces = libc::CLONE_NEWIPC as u32;
        let script = [script::HEADER as u32, namespaces, 0].map(u32::to_le_bytes).concat();
        fds::write(&control, &script).ok().filter(|written| *written == script.len())?;
        // Blocks reading its stdin, which stays empty.
        let waiting = Command {
            program: PathBuf::from("/bin/cat"),
            argv: vec!["cat".into()],
            env: Vec::new(),
            cwd: PathBuf::from("/"),
            confinement: Confinement::none(),
        };
        let flags = CString::new([TreeLevel::UserPidNamespace.letter(), record::FLAG_SCRIPT]).ok()?;
        let spawn_args = SpawnArgs::new(&flags, &waiting).ok()?;
        let pid = spawn_args
            .spawn(&image.path, [&stdin_theirs, &output_theirs, &output_theirs, &control_theirs], Vec::new())
            .ok()?;
        drop(control_theirs);
        let found = find_namespaces(pid);
        // Closing the socket kills the tree; the descriptors keep its namespaces.
        drop(control);
        let _ = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
        found
    }

    /// The descriptors to pass to a launcher, with their numbers there.
    pub fn descriptors(&self) -> Vec<(&OwnedFd, i32)> {
        let users = self.users.iter().map(|fd| (fd, script::FD_USERNS as i32));
        users.chain([(&self.ipc, script::FD_IPCNS as i32)]).collect()
    }

    pub fn has_user_namespace(&self) -> bool {
        self.users.is_some()
    }
}

/// Waits until the launcher `pid` has started its tool and opens the tool's namespaces.
fn find_namespaces(launcher: Pid) -> Option<SharedNamespaces> {
    let ours = fs::read_link("/proc/self/ns/ipc").ok()?;
    let pid = launcher.as_raw_pid();
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let at = |name: &str| format!("/proc/{child}/ns/{name}");
            if fs::read_link(at("ipc")).is_ok_and(|ipc| ipc != ours) {
                let open = |name: &str| {
                    File::open(at(name)).ok().and_then(|file| fds::above_stdio(file.into()).ok())
                };
                return Some(SharedNamespaces { ipc: open("ipc")?, users: Some(open("user")?) });
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}
