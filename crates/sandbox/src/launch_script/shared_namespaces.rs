//! Namespaces with nothing in them, made once and entered by every tool: one without a network, one without shared
//! memory segments, queues and semaphores by number.
//!
//! Making them for each call would cost more than all other walls together. Tools cannot meet in them: the system call
//! filter gives them no socket but UNIX ones and none of the calls for such objects, and Landlock keeps abstract names
//! apart, which is why it must be there.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::landlock::Abi;
use crate::image::Image;
use crate::spawn::SpawnArgs;
use crate::{Command, Confinement, TreeLevel, fds, record};
use toolyard_launcher::opcodes as op;

/// The first version of Landlock that keeps abstract UNIX sockets apart.
const MIN_SCOPED_ABI: Abi = Abi(6);

/// Descriptors keep the namespaces alive and are handed to launchers.
pub struct SharedNamespaces {
    network: OwnedFd,
    ipc: OwnedFd,
    /// Where an ordinary user's are: only inside can the others be entered.
    users: Option<OwnedFd>,
}

/// How long the process that makes an ordinary user's may take.
const LIMIT: Duration = Duration::from_secs(2);

impl SharedNamespaces {
    /// `None` where they cannot be made or would not be safe to share; each tool then gets its own.
    pub fn new(abi: Abi, level: TreeLevel, image: &Image) -> Option<SharedNamespaces> {
        match level {
            _ if abi < MIN_SCOPED_ABI => None,
            TreeLevel::PidNamespace => SharedNamespaces::of_root(),
            TreeLevel::UserPidNamespace => SharedNamespaces::of_user(image),
            TreeLevel::Subreaper => None,
        }
    }

    fn of_root() -> Option<SharedNamespaces> {
        // Namespaces belong to a thread; this one ends at once, and the descriptors keep them.
        let made = std::thread::spawn(|| {
            // SAFETY: changes this thread alone.
            if unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWIPC) } != 0 {
                return None;
            }
            let open = |name: &str| {
                File::open(format!("/proc/thread-self/ns/{name}"))
                    .ok()
                    .and_then(|file| fds::above_stdio(file.into()).ok())
            };
            Some(SharedNamespaces { network: open("net")?, ipc: open("ipc")?, users: None })
        });
        made.join().ok().flatten()
    }

    /// A threaded program can't make a user namespace, so a tool of ours is started in new ones and looked at.
    fn of_user(image: &Image) -> Option<SharedNamespaces> {
        let (control, control_theirs) = fds::socket_pair().ok()?;
        let (stdin_theirs, _stdin) = fds::pipe().ok()?;
        let (_output, output_theirs) = fds::pipe().ok()?;
        let namespaces = (libc::CLONE_NEWNET | libc::CLONE_NEWIPC) as u32;
        let script = [(op::HEADER as u32).to_le_bytes(), namespaces.to_le_bytes()].concat();
        fds::write(&control, &script).ok().filter(|written| *written == script.len())?;
        // Waits for input that never comes.
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
        // Hanging up ends the tree; the descriptors keep what it made.
        drop(control);
        // SAFETY: our own child, not reaped yet.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        found
    }

    /// What to hand over, and as which descriptor.
    pub fn descriptors(&self) -> Vec<(&OwnedFd, i32)> {
        let users = self.users.iter().map(|fd| (fd, op::FD_USERNS as i32));
        users.chain([(&self.network, op::FD_NETNS as i32), (&self.ipc, op::FD_IPCNS as i32)]).collect()
    }

    pub fn has_user_namespace(&self) -> bool {
        self.users.is_some()
    }
}

/// The namespaces of the tool that the launcher `pid` has started, once it has.
fn find_namespaces(pid: libc::pid_t) -> Option<SharedNamespaces> {
    let ours = fs::read_link("/proc/self/ns/net").ok()?;
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let at = |name: &str| format!("/proc/{child}/ns/{name}");
            if fs::read_link(at("net")).is_ok_and(|network| network != ours) {
                let open = |name: &str| {
                    File::open(at(name)).ok().and_then(|file| fds::above_stdio(file.into()).ok())
                };
                return Some(SharedNamespaces {
                    network: open("net")?,
                    ipc: open("ipc")?,
                    users: Some(open("user")?),
                });
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}
