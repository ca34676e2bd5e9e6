//! Child processes: runs a program in a sandbox with bounded output and kills its whole process tree.
//!
//! The daemon never forks: it starts the launcher (crate `toolyard-launcher`) with `posix_spawn`, and the
//! launcher contains the tool's process tree. However a run ends (exit, deadline, output cap, dropped future,
//! death of the daemon), no process of the tree survives it.

mod address;
mod cgroup;
mod confinement;
mod diagnosis;
mod error;
mod fds;
mod image;
mod input;
mod launch_script;
mod launcher;
mod limits;
mod network_pool;
mod output;
mod output_memory;
mod probe;
pub mod proxy;
mod reaper;
mod session;
mod spawn;
mod start;
mod trace;
mod tree;
mod view_pool;

use toolyard_launcher::record;

use std::ffi::OsString;
use std::fmt;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;

pub use address::is_public;
pub use cgroup::Version as CgroupVersion;
pub use confinement::{Confinement, Grant, Identity, Network, PROXY_PORT, ProvidedFile, SandboxLevel};
pub use diagnosis::Weakness;
pub use error::{ChildError, LauncherError};
pub use launch_script::Landlock;
pub use launcher::{KillReason, Launcher, Options};
pub use output_memory::{OutputMemory, OutputReservation};
pub use session::{ChildSession, Event, Exited, SessionOptions, StdinFull};
pub use start::Admitted;
pub use trace::{TraceEntries, TraceLog, TracedAccess, TracedPath};

/// The program to start.
#[derive(Clone, Debug)]
pub struct Command {
    /// An absolute path; no search path is consulted.
    pub program: PathBuf,
    /// All arguments, `argv[0]` included.
    pub argv: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub confinement: Confinement,
}

/// Receives the listening socket of a program under [`Network::Hosts`]. The program may already be running;
/// its connections queue. The socket is in blocking mode and not registered with a runtime. Must not block.
pub type OnListener = Box<dyn FnOnce(TcpListener) + Send>;

/// Input and bounds of one run.
pub struct Exchange {
    pub stdin: Bytes,
    /// The largest stdout accepted, in bytes.
    pub output_cap: usize,
    /// Includes the time spent waiting for a permit.
    pub deadline: Instant,
    /// Used with [`Network::Hosts`] only; if it is `None`, nothing accepts connections on the proxy port.
    pub on_listener: Option<OnListener>,
}

/// The result of a program that exited by itself.
#[derive(Clone, Debug)]
pub struct Finished {
    pub stdout: Bytes,
    /// The last lines of stderr, with control characters escaped.
    pub stderr_tail: String,
    pub exit: Exit,
    /// How this tree was contained; weaker than [`Launcher::level`] if the launcher had to fall back.
    pub level: TreeLevel,
    /// The sandbox level that was applied: the one its [`Confinement`] requested.
    pub sandbox: SandboxLevel,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(u8),
    Signal(u8),
}

impl Exit {
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }

    fn from_wait_status(status: i32) -> Exit {
        match status & 0x7f {
            0 => Exit::Code((status >> 8) as u8),
            signal => Exit::Signal(signal as u8),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Exit::Code(code) => write!(f, "exit status {code}"),
            Exit::Signal(number) => match signal_name(number) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {number}"),
            },
        }
    }
}

/// How a process tree is contained, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeLevel {
    /// A pid namespace, created with the daemon's own privileges.
    PidNamespace,
    /// A pid namespace inside a user namespace, as an ordinary user.
    UserPidNamespace,
    /// No namespace: the launcher adopts orphans and kills its children until none is left. A hostile tool of
    /// the same user can kill the launcher first.
    Subreaper,
}

impl TreeLevel {
    pub const ALL: [TreeLevel; 3] =
        [TreeLevel::PidNamespace, TreeLevel::UserPidNamespace, TreeLevel::Subreaper];

    fn letter(self) -> u8 {
        match self {
            TreeLevel::PidNamespace => record::LEVEL_PID_NAMESPACE,
            TreeLevel::UserPidNamespace => record::LEVEL_USER_PID_NAMESPACE,
            TreeLevel::Subreaper => record::LEVEL_SUBREAPER,
        }
    }

    fn from_letter(letter: u8) -> Option<TreeLevel> {
        TreeLevel::ALL.into_iter().find(|level| level.letter() == letter)
    }
}

impl fmt::Display for TreeLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TreeLevel::PidNamespace => "pid namespace",
            TreeLevel::UserPidNamespace => "user and pid namespace",
            TreeLevel::Subreaper => "subreaper",
        })
    }
}

fn signal_name(number: u8) -> Option<&'static str> {
    Some(match i32::from(number) {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_displayed_with_signal_names() {
        assert_eq!(Exit::from_wait_status(0x0100).to_string(), "exit status 1");
        assert_eq!(Exit::from_wait_status(9).to_string(), "killed by SIGKILL");
        assert_eq!(Exit::from_wait_status(0x80 | 11).to_string(), "killed by SIGSEGV");
        assert_eq!(Exit::from_wait_status(40).to_string(), "killed by signal 40");
    }

    #[test]
    fn a_record_round_trips_and_another_version_is_rejected() {
        let record = record::Record { level: b'n', stage: record::STAGE_EXEC, errno: 13, status: -2 };
        let mut bytes = record.to_bytes();
        assert_eq!(record::Record::from_bytes(bytes), Some(record));
        bytes[0] = 99;
        assert_eq!(record::Record::from_bytes(bytes), None);
    }
}
