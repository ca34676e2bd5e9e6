//! Child processes: one program, bytes in, bounded bytes out, and never a survivor.
//!
//! The daemon itself never forks and changes nothing between fork and exec: it starts the small launcher in
//! the crate `launcher` with `posix_spawn`, and that program holds the tool's process tree. Whatever ends a run — the
//! tool, the deadline, the output cap, a dropped future, the daemon's own death — the whole tree is dead after.

mod address;
mod confinement;
mod error;
mod fds;
mod image;
mod input;
mod launch_script;
mod launcher;
mod limits;
mod output;
mod probe;
pub mod proxy;
mod reaper;
mod session;
mod spawn;
mod start;
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
pub use confinement::{Confinement, Network, PROXY_PORT, SandboxLevel};
pub use error::{ChildError, LauncherError};
pub use launcher::{KillReason, Launcher, Options};
pub use session::{ChildSession, Event, Exited, SessionOptions, StdinFull};

/// What to start.
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

/// Takes the listening socket of a program under [`Network::Hosts`], which may be running already: early connections
/// wait. It does not block yet and belongs to no runtime; taking it must not block either.
pub type OnListener = Box<dyn FnOnce(TcpListener) + Send>;

/// One exchange: bytes in, bounded bytes out.
pub struct Exchange {
    pub stdin: Bytes,
    /// The largest stdout accepted, in bytes.
    pub output_cap: usize,
    /// Waiting for a permit counts too.
    pub deadline: Instant,
    /// Wanted by [`Network::Hosts`] alone; without it the program finds nobody behind the port.
    pub on_listener: Option<OnListener>,
}

/// What a program that ended by itself left.
#[derive(Clone, Debug)]
pub struct Finished {
    pub stdout: Vec<u8>,
    /// The last lines of stderr, made safe to show.
    pub stderr_tail: String,
    pub exit: Exit,
    /// How this tree was held; weaker than [`Launcher::level`] when the launcher had to fall back.
    pub level: TreeLevel,
    /// How the program was confined: what its [`Confinement`] asked for.
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

/// How a process tree is held, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeLevel {
    /// A pid namespace, made with the daemon's own privileges.
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
    fn exits_read_as_a_person_would_say_them() {
        assert_eq!(Exit::from_wait_status(0x0100).to_string(), "exit status 1");
        assert_eq!(Exit::from_wait_status(9).to_string(), "killed by SIGKILL");
        assert_eq!(Exit::from_wait_status(0x80 | 11).to_string(), "killed by SIGSEGV");
        assert_eq!(Exit::from_wait_status(40).to_string(), "killed by signal 40");
    }

    #[test]
    fn a_record_survives_the_socket_and_another_version_is_refused() {
        let record = record::Record { level: b'n', stage: record::STAGE_EXEC, errno: 13, status: -2 };
        let mut bytes = record.to_bytes();
        assert_eq!(record::Record::from_bytes(bytes), Some(record));
        bytes[0] = 99;
        assert_eq!(record::Record::from_bytes(bytes), None);
    }
}
