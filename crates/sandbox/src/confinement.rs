//! How a child is confined: what it sees, what it may use, and how much of it.
//!
//! A confinement is applied whole or the program is not started: nothing here is ever weakened silently. Whoever
//! wants a weaker level where the machine gives no stronger one asks [`super::Launcher::sandbox_level`] and
//! says so in `level`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The port on 127.0.0.1 on which a program under [`Network::Hosts`] finds the proxy.
pub const PROXY_PORT: u16 = 3128;

/// How one child is confined.
///
/// The limits (`memory` to `file_size`) hold at every level, `read`, `write`, `hidden`, `network` and `tmp_bytes`
/// from [`SandboxLevel::Landlock`] up. Paths must be absolute; links in them are followed once, before the program
/// starts, and the program sees the file under the name given here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    pub level: SandboxLevel,
    /// Files and folders the program may read and execute, beside the system's own (`/usr`, libraries,
    /// certificates, time zones, locale): the interpreter's prefix, the tool's folder, declared paths. The
    /// working directory must be in here or in `write`. A path that does not exist fails the start.
    pub read: Vec<PathBuf>,
    /// Files and folders the program may change as well.
    pub write: Vec<PathBuf>,
    /// Inside visible folders, yet never visible: the state folder. One that does not exist is passed over, so
    /// make it before the first start.
    pub hidden: Vec<PathBuf>,
    pub network: Network,
    /// Resident bytes of the whole tree.
    pub memory: Option<u64>,
    /// User and system time of the whole tree.
    pub cpu: Option<Duration>,
    /// Processes and threads of the whole tree.
    pub processes: Option<u64>,
    /// Open files of each process.
    pub files: Option<u64>,
    /// Bytes of the largest file the program may write.
    pub file_size: Option<u64>,
    /// Size of the private `/tmp`, which is `/dev/shm` too; at [`SandboxLevel::Landlock`] there is none.
    pub tmp_bytes: u64,
}

impl Confinement {
    /// No walls and no limits.
    pub fn none() -> Confinement {
        Confinement::at(SandboxLevel::None)
    }

    /// Nothing visible but the system, no network, no limits but the size of `/tmp`.
    pub fn at(level: SandboxLevel) -> Confinement {
        Confinement {
            level,
            read: Vec::new(),
            write: Vec::new(),
            hidden: Vec::new(),
            network: Network::Deny,
            memory: None,
            cpu: None,
            processes: None,
            files: None,
            file_size: None,
            tmp_bytes: 64 << 20,
        }
    }
}

/// How strong the walls are, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxLevel {
    /// None: the program can do what the daemon's user can.
    None,
    /// Landlock and seccomp: what is not granted can't be opened, but whether it exists can be found out, and in a
    /// folder with something hidden the names of the hidden part can be listed. No private `/tmp`, no UNIX
    /// socket by name, and in a folder with something hidden no new entries.
    Landlock,
    /// The above inside namespaces of its own (mount, pid, network, ipc, uts): what is not granted is not there.
    /// Root's program keeps uid 0, so that it can use root's files in the folders it was granted, but has no
    /// capability and can't get one: of what it sees it can use what uid 0 owns, and nothing else.
    Full,
}

impl SandboxLevel {
    pub const ALL: [SandboxLevel; 3] = [SandboxLevel::Full, SandboxLevel::Landlock, SandboxLevel::None];
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SandboxLevel::None => "none",
            SandboxLevel::Landlock => "landlock",
            SandboxLevel::Full => "full",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// No socket but UNIX ones within the tree.
    Deny,
    /// The machine's network, TCP and UDP, no raw sockets.
    Allow,
    /// Nothing but [`PROXY_PORT`] on 127.0.0.1, whose listening socket the daemon gets in
    /// [`super::Exchange::on_listener`]. Only at [`SandboxLevel::Full`].
    Hosts,
}
