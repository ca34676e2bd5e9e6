//! The seccomp filter: denies system calls that tools do not need but escapes use. A denylist, because a tool
//! may be any program; file access is left to mounts and Landlock.

use std::mem::offset_of;

use crate::{Network, SandboxLevel};

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
const OPEN_TREE_ATTR: i64 = 467;
/// The low four bits are the socket type.
const TYPE: u32 = 0xf;
const PERSONALITY_QUERY: u32 = 0xffff_ffff;

/// Denied with EPERM whatever the arguments.
const DENIED_SYSCALLS: [i64; 57] = [
    // File system and mounts.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Other processes.
    libc::SYS_setns,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Kernel subsystems that exploits commonly use.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_memfd_secret,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy_home_node,
];
#[cfg(target_arch = "x86_64")]
const DENIED_SYSCALLS_OF_ARCH: [i64; 5] =
    [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib, libc::SYS_ustat];
#[cfg(target_arch = "aarch64")]
const DENIED_SYSCALLS_OF_ARCH: [i64; 0] = [];
/// IPC objects that are addressed by number and isolated only by an ipc namespace. Also the calls that use an
/// object, because its number can be guessed.
const IPC_SYSCALLS: [i64; 13] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// The BPF program, eight bytes per instruction. `shared_ipc`: the ipc namespace is shared with other tools.
pub fn program(level: SandboxLevel, network: Network, shared_ipc: bool) -> Vec<u8> {
    let mut code = BpfProgram::default();
    code.load(offset_of!(libc::seccomp_data, arch));
    code.unless_equal(ARCHITECTURE, Action::Kill);
    code.load(offset_of!(libc::seccomp_data, nr));
    // x32 system calls on x86_64: the same calls under other numbers.
    if cfg!(target_arch = "x86_64") {
        code.if_at_least(0x4000_0000, Action::Kill);
    }
    let own = if level == SandboxLevel::Full && !shared_ipc { &[][..] } else { &IPC_SYSCALLS };
    let mut denied: Vec<u32> =
        DENIED_SYSCALLS.iter().chain(&DENIED_SYSCALLS_OF_ARCH).chain(own).map(|call| *call as u32).collect();
    denied.sort_unstable();
    code.if_one_of(&denied, Action::Errno(libc::EPERM));
    // On ENOSYS libc falls back to `clone`, whose flags the filter can read.
    code.if_equal(libc::SYS_clone3 as u32, Action::Errno(libc::ENOSYS));
    code.for_syscall(libc::SYS_clone, |code| {
        code.load(argument(0));
        code.if_any(NAMESPACES, Action::Errno(libc::EPERM));
    });
    code.for_syscall(libc::SYS_unshare, |code| {
        code.load(argument(0));
        code.if_any(NAMESPACES | CLONE_NEWTIME, Action::Errno(libc::EPERM));
    });
    code.for_syscall(libc::SYS_personality, |code| {
        code.load(argument(0));
        code.if_equal(0, Action::Allow);
        code.if_equal(PERSONALITY_QUERY, Action::Allow);
        code.return_action(Action::Errno(libc::EPERM));
    });
    code.for_syscall(libc::SYS_ioctl, |code| {
        code.load(argument(1));
        // Injecting input into a terminal.
        code.if_equal(libc::TIOCSTI as u32, Action::Errno(libc::EPERM));
        code.if_equal(libc::TIOCLINUX as u32, Action::Errno(libc::EPERM));
    });
    code.for_syscall(libc::SYS_socket, |code| sockets(code, level, network));
    code.for_syscall(libc::SYS_socketpair, |code| {
        code.load(argument(0));
        code.unless_equal(libc::AF_UNIX as u32, Action::Errno(libc::EAFNOSUPPORT));
        // Unlike a stream, a datagram socket of a pair can send to every UNIX socket that has a path.
        if level != SandboxLevel::Full {
            code.load(argument(1));
            code.mask(TYPE);
            code.if_equal(libc::SOCK_STREAM as u32, Action::Allow);
            code.if_equal(libc::SOCK_SEQPACKET as u32, Action::Allow);
            code.return_action(Action::Errno(libc::EPERM));
        }
    });
    code.return_action(Action::Allow);
    code.bytes
}

/// A program that reports these calls, which are sorted, and allows the others.
pub fn reporting_program(calls: &[u32]) -> Vec<u8> {
    let mut code = BpfProgram::default();
    code.load(offset_of!(libc::seccomp_data, arch));
    // Other architectures are left to the filter that ends them.
    code.unless_equal(ARCHITECTURE, Action::Allow);
    code.load(offset_of!(libc::seccomp_data, nr));
    code.if_one_of(calls, Action::Report);
    code.return_action(Action::Allow);
    code.bytes
}

/// Allows only the granted families and types; others could make the kernel load a module.
fn sockets(code: &mut BpfProgram, level: SandboxLevel, network: Network) {
    let unknown = Action::Errno(libc::EAFNOSUPPORT);
    code.load(argument(0));
    // Without a mount namespace, every UNIX socket of the machine could be reached by path.
    if level == SandboxLevel::Full {
        code.if_equal(libc::AF_UNIX as u32, Action::Allow);
    }
    // Inside a network namespace of its own, a tool reaches only itself.
    if level != SandboxLevel::Full && network == Network::Deny {
        code.return_action(unknown);
        return;
    }
    code.if_equal_skip_else(libc::AF_NETLINK as u32, |code| {
        // Name resolution lists the local addresses.
        code.load(argument(2));
        code.if_equal(libc::NETLINK_ROUTE as u32, Action::Allow);
        code.return_action(unknown);
    });
    code.if_equal_skip(libc::AF_INET as u32, 2);
    code.unless_equal(libc::AF_INET6 as u32, unknown);
    code.load(argument(2));
    // Each skips the later ones and the refusal.
    code.if_equal_skip(libc::IPPROTO_UDP as u32, 3);
    code.if_equal_skip(libc::IPPROTO_TCP as u32, 2);
    code.if_equal_skip(0, 1);
    code.return_action(Action::Errno(libc::EPROTONOSUPPORT));
    code.load(argument(1));
    code.mask(TYPE);
    code.if_equal(libc::SOCK_STREAM as u32, Action::Allow);
    code.if_equal(libc::SOCK_DGRAM as u32, Action::Allow);
    code.return_action(Action::Errno(libc::EPERM));
}

#[derive(Clone, Copy)]
enum Action {
    Allow,
    Errno(i32),
    Kill,
    Report,
}

/// Offset of the low half; the kernel ignores the high half of the arguments checked here.
fn argument(index: usize) -> usize {
    offset_of!(libc::seccomp_data, args) + index * 8
}

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY: u16 = 0x45;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;

#[derive(Default)]
struct BpfProgram {
    bytes: Vec<u8>,
}

impl BpfProgram {
    fn emit(&mut self, code: u16, if_true: u8, if_false: u8, value: u32) {
        self.bytes.extend(code.to_ne_bytes());
        self.bytes.extend([if_true, if_false]);
        self.bytes.extend(value.to_ne_bytes());
    }

    fn load(&mut self, offset: usize) {
        self.emit(LOAD, 0, 0, offset as u32);
    }

    fn mask(&mut self, mask: u32) {
        self.emit(AND, 0, 0, mask);
    }

    fn return_action(&mut self, action: Action) {
        let value = match action {
            Action::Allow => libc::SECCOMP_RET_ALLOW,
            Action::Errno(errno) => libc::SECCOMP_RET_ERRNO | errno as u32,
            Action::Kill => libc::SECCOMP_RET_KILL_PROCESS,
            Action::Report => libc::SECCOMP_RET_USER_NOTIF,
        };
        self.emit(RETURN, 0, 0, value);
    }

    fn if_equal(&mut self, value: u32, action: Action) {
        self.emit(JUMP_EQUAL, 0, 1, value);
        self.return_action(action);
    }

    fn unless_equal(&mut self, value: u32, action: Action) {
        self.emit(JUMP_EQUAL, 1, 0, value);
        self.return_action(action);
    }

    fn if_at_least(&mut self, value: u32, action: Action) {
        self.emit(JUMP_AT_LEAST, 0, 1, value);
        self.return_action(action);
    }

    fn if_any(&mut self, bits: u32, action: Action) {
        self.emit(JUMP_ANY, 0, 1, bits);
        self.return_action(action);
    }

    fn if_equal_skip(&mut self, value: u32, instructions: u8) {
        self.emit(JUMP_EQUAL, instructions, 0, value);
    }

    /// `values` are sorted. A binary search, because the kernel evaluates the filter for every system call
    /// number when it is installed, which happens for every tool.
    fn if_one_of(&mut self, values: &[u32], action: Action) {
        if values.len() <= 3 {
            values.iter().for_each(|value| self.if_equal(*value, action));
            return;
        }
        let (low, high) = values.split_at(values.len() / 2);
        let (mut below, mut above) = (BpfProgram::default(), BpfProgram::default());
        below.if_one_of(low, action);
        above.if_one_of(high, action);
        // The jump at the end of `below` is skipped too.
        let skipped = below.bytes.len() / 8 + 1;
        match u8::try_from(skipped) {
            Ok(skipped) => self.emit(JUMP_AT_LEAST, skipped, 0, high[0]),
            // The offset of a condition has eight bits, that of a plain jump 32.
            Err(_) => {
                self.emit(JUMP_AT_LEAST, 0, 1, high[0]);
                self.emit(JUMP, 0, 0, skipped as u32);
            }
        }
        self.bytes.extend(below.bytes);
        self.emit(JUMP, 0, 0, (above.bytes.len() / 8) as u32);
        self.bytes.extend(above.bytes);
    }

    /// Applies `rules` to one system call, which is allowed unless they return.
    fn for_syscall(&mut self, call: i64, rules: impl FnOnce(&mut BpfProgram)) {
        self.if_equal_skip_else(call as u32, |code| {
            rules(code);
            code.return_action(Action::Allow);
        });
    }

    /// Applies `rules`, which must return, if the value is equal.
    fn if_equal_skip_else(&mut self, value: u32, rules: impl FnOnce(&mut BpfProgram)) {
        let mut inner = BpfProgram::default();
        rules(&mut inner);
        self.emit(JUMP_EQUAL, 1, 0, value);
        self.emit(JUMP, 0, 0, (inner.bytes.len() / 8) as u32);
        self.bytes.extend(inner.bytes);
    }
}

#[cfg(test)]
#[path = "seccomp_tests.rs"]
mod tests;
