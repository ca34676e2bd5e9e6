//! The sandbox policy of one child: visible files, network access and resource limits.
//!
//! A confinement is applied completely or the program is not started; nothing is weakened silently. A caller
//! that accepts a weaker level reads [`super::Launcher::sandbox_level`] and sets `level` accordingly.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::TraceLog;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

/// The port on 127.0.0.1 where a program under [`Network::Hosts`] reaches the proxy.
pub const PROXY_PORT: u16 = 3128;

/// How one child is confined.
///
/// The limits (`memory` to `file_size`) apply at every level; `read`, `grants`, `hidden`, `network` and
/// `tmp_bytes` from [`SandboxLevel::Landlock`] up. Paths must be absolute.
#[derive(Clone, Debug)]
pub struct Confinement {
    pub level: SandboxLevel,
    /// Files and folders the program may read and execute, in addition to the system's (`/usr`, libraries,
    /// certificates, time zones, locale). The working directory must be below one of these or of `grants`. The
    /// start fails if a path does not exist. Symbolic links are resolved once, before the program starts, and
    /// the program sees the file under the path given here: only for paths that no tool can change.
    pub read: Vec<PathBuf>,
    /// Files and folders that were opened and checked before.
    pub grants: Vec<Grant>,
    /// Paths hidden although a folder above them is visible, such as the state folder. A path that does not
    /// exist is skipped, so create it before the first start.
    pub hidden: Vec<PathBuf>,
    pub network: Network,
    /// Files that the program finds besides those of the machine, at [`SandboxLevel::Full`].
    pub provided: Vec<ProvidedFile>,
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
    /// At [`SandboxLevel::Landlock`]: whether it may change modes, owners, times and attributes. They cannot be limited
    /// to folders there, so that this is for programs that are trusted with all files of their user.
    pub metadata: bool,
    /// Where to record the paths and addresses that the program asks for; from [`SandboxLevel::Landlock`] up.
    pub trace: Option<Arc<TraceLog>>,
    /// Size of the private `/tmp`, which is also `/dev/shm`. Unused at [`SandboxLevel::Landlock`].
    pub tmp_bytes: u64,
}

impl Confinement {
    /// No sandbox and no limits.
    pub fn none() -> Confinement {
        Confinement::at(SandboxLevel::None)
    }

    /// Only the system files, no network, and no limit except the size of `/tmp`.
    pub fn at(level: SandboxLevel) -> Confinement {
        Confinement {
            level,
            read: Vec::new(),
            grants: Vec::new(),
            hidden: Vec::new(),
            network: Network::Deny,
            provided: Vec::new(),
            memory: None,
            cpu: None,
            processes: None,
            files: None,
            file_size: None,
            metadata: false,
            trace: None,
            tmp_bytes: 64 << 20,
        }
    }

    /// The private, empty and writable folders of a program: its home and the one for temporary files. At
    /// [`SandboxLevel::Full`] only, and there both are `/tmp` if the host's is granted as a whole.
    pub fn private_folders(&self) -> Option<(&'static Path, &'static Path)> {
        let tmp = Path::new("/tmp");
        let mut granted = self.read.iter().chain(self.grants.iter().map(|grant| &grant.path));
        let is_granted = granted.any(|path| tmp.starts_with(path));
        let home = if is_granted { tmp } else { Path::new("/tmp/home") };
        (self.level == SandboxLevel::Full).then_some((home, tmp))
    }
}

/// A small file that exists only in the program's view of the file system.
#[derive(Clone, Copy, Debug)]
pub struct ProvidedFile {
    /// Absolute.
    pub path: &'static str,
    pub content: &'static [u8],
}

/// A file or folder that was opened before the start. The start fails if its path leads to something else by then.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Absolute and free of symbolic links.
    pub path: PathBuf,
    pub writable: bool,
    pub is_dir: bool,
    pub identity: Identity,
    /// Keeps the inode number from being used again while the grant is held.
    _handle: Arc<OwnedFd>,
}

/// What tells a file from every other one on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

impl Grant {
    /// Opens a path; a symbolic link in it is an error (`ELOOP`).
    pub fn open(path: &Path, writable: bool) -> io::Result<Grant> {
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let handle = openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?;
        Grant::of(handle, path.to_owned(), writable)
    }

    /// `handle` was opened at `path`, without following a link.
    pub fn of(handle: OwnedFd, path: PathBuf, writable: bool) -> io::Result<Grant> {
        let stat = fstat(&handle)?;
        let is_dir = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile | FileType::Socket => false,
            _ => return Err(io::Error::other("is neither a file nor a folder")),
        };
        let identity = Identity { device: stat.st_dev, inode: stat.st_ino };
        Ok(Grant { path, writable, is_dir, identity, _handle: Arc::new(handle) })
    }
}

/// How strong the sandbox is, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxLevel {
    /// No sandbox: the program can do everything that the daemon's user can.
    None,
    /// Landlock and seccomp: paths that are not granted cannot be opened, but their existence can be probed
    /// and the names in a hidden folder can be listed. No private `/tmp`, no UNIX sockets by path, and no new
    /// entries in a folder that contains a hidden path.
    Landlock,
    /// The above inside separate namespaces (mount, pid, network, ipc, uts): paths that are not granted do
    /// not exist. A program of root keeps uid 0, so it can use root's files in granted folders, but it has no
    /// capabilities and cannot gain any.
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
    /// Only the loopback interface of a network namespace of its own, and UNIX sockets between processes of the
    /// tree; no sockets at [`SandboxLevel::Landlock`].
    Deny,
    /// The host's network with TCP and UDP; no raw sockets.
    Allow,
    /// Only [`PROXY_PORT`] on 127.0.0.1, whose listening socket is passed to
    /// [`super::Exchange::on_listener`]. Requires [`SandboxLevel::Full`].
    Hosts,
}
