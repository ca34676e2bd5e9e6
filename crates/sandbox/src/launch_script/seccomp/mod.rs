//! The seccomp filter: denies system calls that tools do not need but escapes use. A denylist, because a tool
//! may be any program; file access is left to mounts and Landlock, as far as they go.

mod bpf;
mod calls;

use crate::{Network, SandboxLevel};
use bpf::{Action, BpfProgram, SyscallRules};
use calls::{
    DENIED_SYSCALLS, DENIED_SYSCALLS_OF_ARCH, IPC_SYSCALLS, METADATA_SYSCALLS, METADATA_SYSCALLS_OF_ARCH,
};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32;
const CLONE_NEWTIME: u32 = 0x80;
/// Not yet in every libc.
const FCHMODAT2: i64 = 452;
/// The low four bits are the socket type.
const TYPE: u32 = 0xf;
const PERSONALITY_QUERY: u32 = 0xffff_ffff;
/// A file with these runs as its owner or group, outside the sandbox too.
const SETUID_SETGID: u32 = libc::S_ISUID | libc::S_ISGID;
/// `ioctl` requests that change attributes of a file.
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const DENIED: Action = Action::Errno(libc::EPERM);

/// What the filter has to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    pub level: SandboxLevel,
    pub network: Network,
    /// The ipc namespace is shared with other tools.
    pub shared_ipc: bool,
    /// All memory of the tree is counted by the kernel, or it has no limit.
    pub counted: bool,
    /// Changing modes, owners, times and attributes is allowed without a mount namespace.
    pub metadata: bool,
    /// Landlock isolates abstract UNIX sockets.
    pub scoped_sockets: bool,
    /// Landlock has a right for truncating files.
    pub truncate_right: bool,
}

impl Filter {
    /// The BPF program, eight bytes per instruction.
    pub fn program(self) -> Vec<u8> {
        let mut code = BpfProgram::default();
        code.load_arch();
        code.unless_equal(ARCHITECTURE, Action::Kill);
        code.load_number();
        // x32 system calls on x86_64: the same calls under other numbers.
        if cfg!(target_arch = "x86_64") {
            code.if_at_least(0x4000_0000, Action::Kill);
        }
        code.dispatch(&self.rules().sorted());
        code.return_action(Action::Allow);
        code.bytes
    }

    fn rules(self) -> SyscallRules {
        let mut rules = SyscallRules::default();
        let ipc = if self.level == SandboxLevel::Full && !self.shared_ipc { &[][..] } else { &IPC_SYSCALLS };
        for call in DENIED_SYSCALLS.iter().chain(&DENIED_SYSCALLS_OF_ARCH).chain(ipc) {
            rules.always(*call, DENIED);
        }
        // On ENOSYS libc falls back to `clone`, whose flags the filter can read.
        rules.always(libc::SYS_clone3, Action::Errno(libc::ENOSYS));
        rules.arguments(libc::SYS_clone, |code| {
            code.load_argument(0);
            code.if_any(NAMESPACES, DENIED);
        });
        rules.arguments(libc::SYS_unshare, |code| {
            code.load_argument(0);
            code.if_any(NAMESPACES | CLONE_NEWTIME, DENIED);
        });
        rules.arguments(libc::SYS_personality, |code| {
            code.load_argument(0);
            code.if_equal(0, Action::Allow);
            code.if_equal(PERSONALITY_QUERY, Action::Allow);
            code.return_action(DENIED);
        });
        rules.arguments(libc::SYS_prlimit64, |code| {
            // Reading limits, and changing one's own.
            code.load_argument(0);
            code.if_equal(0, Action::Allow);
            code.load_argument(2);
            code.unless_equal(0, DENIED);
            code.load_high_half(2);
            code.unless_equal(0, DENIED);
        });
        rules.arguments(libc::SYS_socket, |code| self.sockets(code));
        rules.arguments(libc::SYS_socketpair, |code| self.socket_pairs(code));
        if !self.counted {
            // Programs fall back to a file in /dev/shm, which has a limit of its own.
            rules.always(libc::SYS_memfd_create, Action::Errno(libc::ENOSYS));
        }
        rules.arguments(libc::SYS_ioctl, |code| self.ioctls(code));
        self.modes(&mut rules);
        self.metadata(&mut rules);
        rules
    }

    fn ioctls(self, code: &mut BpfProgram) {
        code.load_argument(1);
        // Injecting input into a terminal.
        code.if_equal(libc::TIOCSTI as u32, DENIED);
        code.if_equal(libc::TIOCLINUX as u32, DENIED);
        if self.level != SandboxLevel::Full {
            code.if_equal(FS_IOC_SETFLAGS, DENIED);
            code.if_equal(FS_IOC_FSSETXATTR, DENIED);
        }
    }

    /// No file gets a setuid or setgid bit, in whatever way it gets its mode.
    fn modes(self, rules: &mut SyscallRules) {
        // Its flags and mode are in memory, where the filter cannot read them; libc does not use it.
        rules.always(libc::SYS_openat2, Action::Errno(libc::ENOSYS));
        let mut modes =
            vec![(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (FCHMODAT2, 2), (libc::SYS_mknodat, 2)];
        let mut opens = vec![(libc::SYS_openat, 2)];
        #[cfg(target_arch = "x86_64")]
        {
            modes.extend([(libc::SYS_chmod, 1), (libc::SYS_mknod, 1), (libc::SYS_creat, 1)]);
            opens.push((libc::SYS_open, 1));
        }
        #[cfg(not(target_arch = "x86_64"))]
        opens.shrink_to_fit();
        for (call, mode) in modes {
            rules.arguments(call, |code| {
                code.load_argument(mode);
                code.if_any(SETUID_SETGID, DENIED);
            });
        }
        for (call, flags) in opens {
            rules.arguments(call, |code| self.opens(code, flags));
        }
    }

    fn opens(self, code: &mut BpfProgram, flags: usize) {
        code.load_argument(flags);
        if self.level != SandboxLevel::Full && !self.truncate_right {
            // Truncates a file that may only be read.
            code.mask((libc::O_TRUNC | libc::O_ACCMODE) as u32);
            code.if_equal(libc::O_TRUNC as u32, DENIED);
            code.load_argument(flags);
        }
        // The mode is used only when a file is created.
        const TMPFILE: u32 = (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;
        code.unless_any(libc::O_CREAT as u32 | TMPFILE, Action::Allow);
        code.load_argument(flags + 1);
        code.if_any(SETUID_SETGID, DENIED);
    }

    /// What Landlock has no rights for, where no mount namespace protects the files of the tool's user.
    fn metadata(self, rules: &mut SyscallRules) {
        if self.level == SandboxLevel::Full {
            return;
        }
        if !self.truncate_right {
            rules.always(libc::SYS_truncate, DENIED);
        }
        if self.metadata {
            return;
        }
        for call in METADATA_SYSCALLS.iter().chain(&METADATA_SYSCALLS_OF_ARCH) {
            rules.always(*call, DENIED);
        }
        rules.arguments(libc::SYS_utimensat, |code| {
            // The current time for a file that was opened, as `touch` sets it.
            for argument in [1, 2] {
                code.load_argument(argument);
                code.unless_equal(0, DENIED);
                code.load_high_half(argument);
                code.unless_equal(0, DENIED);
            }
        });
    }

    /// Whether a UNIX socket of the machine could be reached, by its path or by its abstract name.
    fn unix_sockets_are_exposed(self) -> bool {
        self.level != SandboxLevel::Full || (self.network == Network::Allow && !self.scoped_sockets)
    }

    fn socket_pairs(self, code: &mut BpfProgram) {
        code.load_argument(0);
        code.unless_equal(libc::AF_UNIX as u32, Action::Errno(libc::EAFNOSUPPORT));
        // Unlike a stream, a datagram socket of a pair can send to every UNIX socket that has a name. What it
        // holds after its sender was closed cannot be counted without a cgroup.
        if self.unix_sockets_are_exposed() || !self.counted {
            code.load_argument(1);
            code.mask(TYPE);
            code.if_equal(libc::SOCK_STREAM as u32, Action::Allow);
            code.if_equal(libc::SOCK_SEQPACKET as u32, Action::Allow);
            code.return_action(DENIED);
        }
    }

    /// Allows only the granted families and types; others could make the kernel load a module.
    fn sockets(self, code: &mut BpfProgram) {
        let unknown = Action::Errno(libc::EAFNOSUPPORT);
        code.load_argument(0);
        if !self.unix_sockets_are_exposed() {
            code.if_equal_then(libc::AF_UNIX as u32, |code| {
                if !self.counted {
                    code.load_argument(1);
                    code.mask(TYPE);
                    code.if_equal(libc::SOCK_DGRAM as u32, DENIED);
                    // The kernel takes it for a datagram socket.
                    code.if_equal(libc::SOCK_RAW as u32, DENIED);
                }
                code.return_action(Action::Allow);
            });
        }
        // Inside a network namespace of its own, a tool reaches only itself.
        if self.level != SandboxLevel::Full && self.network == Network::Deny {
            code.return_action(unknown);
            return;
        }
        code.if_equal_then(libc::AF_NETLINK as u32, |code| {
            // Name resolution lists the local addresses.
            code.load_argument(2);
            code.if_equal(libc::NETLINK_ROUTE as u32, Action::Allow);
            code.return_action(unknown);
        });
        code.if_equal_skip(libc::AF_INET as u32, 2);
        code.unless_equal(libc::AF_INET6 as u32, unknown);
        code.load_argument(2);
        // Each skips the later ones and the refusal.
        code.if_equal_skip(libc::IPPROTO_UDP as u32, 3);
        code.if_equal_skip(libc::IPPROTO_TCP as u32, 2);
        code.if_equal_skip(0, 1);
        code.return_action(Action::Errno(libc::EPROTONOSUPPORT));
        code.load_argument(1);
        code.mask(TYPE);
        code.if_equal(libc::SOCK_STREAM as u32, Action::Allow);
        code.if_equal(libc::SOCK_DGRAM as u32, Action::Allow);
        code.return_action(DENIED);
    }
}

/// A program that reports these calls and allows the others.
pub fn reporting_program(calls: impl Iterator<Item = i64>) -> Vec<u8> {
    let mut rules = SyscallRules::default();
    calls.for_each(|call| rules.always(call, Action::Report));
    let mut code = BpfProgram::default();
    code.load_arch();
    // Other architectures are left to the filter that ends them.
    code.unless_equal(ARCHITECTURE, Action::Allow);
    code.load_number();
    code.dispatch(&rules.sorted());
    code.return_action(Action::Allow);
    code.bytes
}

#[cfg(test)]
mod tests;
