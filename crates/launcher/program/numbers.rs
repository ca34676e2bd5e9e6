//! The numbers of the kernel's interface, under their names in its headers. `tests/numbers.rs` compares them
//! with the headers of both architectures.

/// `NAME call x86_64 aarch64;`
macro_rules! syscalls {
    ($($name:ident $call:ident $x86_64:literal $aarch64:literal;)*) => {
        pub mod nr {
            $(pub const $name: usize = if cfg!(target_arch = "aarch64") { $aarch64 } else { $x86_64 };)*
        }
        #[allow(dead_code, reason = "for the test")]
        pub const SYSCALLS: &[(&str, [usize; 2])] = &[$((stringify!($call), [$x86_64, $aarch64]),)*];
    };
}

/// `NAME: type = value;`, the same on both architectures.
macro_rules! constants {
    ($($name:ident: $kind:ty = $value:literal;)*) => {
        $(pub const $name: $kind = $value;)*
        #[allow(dead_code, reason = "for the test")]
        pub const CONSTANTS: &[(&str, i64)] = &[$((stringify!($name), $value),)*];
    };
}

syscalls! {
    READ read 0 63;
    WRITE write 1 64;
    CLOSE close 3 57;
    FSTAT fstat 5 80;
    RT_SIGACTION rt_sigaction 13 134;
    RT_SIGPROCMASK rt_sigprocmask 14 135;
    IOCTL ioctl 16 29;
    GETPID getpid 39 172;
    SOCKET socket 41 198;
    SENDMSG sendmsg 46 211;
    BIND bind 49 200;
    LISTEN listen 50 201;
    CLONE clone 56 220;
    EXECVE execve 59 221;
    WAIT4 wait4 61 260;
    KILL kill 62 129;
    CHDIR chdir 80 49;
    FCHDIR fchdir 81 50;
    GETEUID geteuid 107 175;
    GETEGID getegid 108 177;
    GETPPID getppid 110 173;
    SETSID setsid 112 157;
    CAPSET capset 126 91;
    PIVOT_ROOT pivot_root 155 41;
    PRCTL prctl 157 167;
    MOUNT mount 165 40;
    UMOUNT2 umount2 166 39;
    EXIT_GROUP exit_group 231 94;
    OPENAT openat 257 56;
    MKDIRAT mkdirat 258 34;
    SYMLINKAT symlinkat 266 36;
    PPOLL ppoll 271 73;
    UNSHARE unshare 272 97;
    SIGNALFD4 signalfd4 289 74;
    PRLIMIT64 prlimit64 302 261;
    SETNS setns 308 268;
    SECCOMP seccomp 317 277;
    OPEN_TREE open_tree 428 428;
    MOVE_MOUNT move_mount 429 429;
    FSOPEN fsopen 430 430;
    FSCONFIG fsconfig 431 431;
    FSMOUNT fsmount 432 432;
    CLONE3 clone3 435 435;
    CLOSE_RANGE close_range 436 436;
    OPENAT2 openat2 437 437;
    MOUNT_SETATTR mount_setattr 442 442;
    LANDLOCK_CREATE_RULESET landlock_create_ruleset 444 444;
    LANDLOCK_ADD_RULE landlock_add_rule 445 445;
    LANDLOCK_RESTRICT_SELF landlock_restrict_self 446 446;
}

constants! {
    EINVAL: isize = 22;
    ESTALE: isize = 116;
    EEXIST: isize = 17;
    ECHILD: isize = 10;
    CLONE_VM: usize = 0x100;
    CLONE_FILES: usize = 0x400;
    CLONE_VFORK: usize = 0x4000;
    CLONE_NEWNS: usize = 0x2_0000;
    CLONE_NEWUSER: usize = 0x1000_0000;
    CLONE_NEWPID: usize = 0x2000_0000;
    CLONE_INTO_CGROUP: usize = 0x2_0000_0000;
    SIGKILL: usize = 9;
    SIGCHLD: usize = 17;
    SIG_SETMASK: usize = 2;
    WNOHANG: usize = 1;
    POLLIN: i16 = 0x1;
    POLLRDHUP: i16 = 0x2000;
    AT_FDCWD: isize = -100;
    AT_EMPTY_PATH: usize = 0x1000;
    AT_RECURSIVE: usize = 0x8000;
    O_WRONLY: usize = 0o1;
    O_CREAT: usize = 0o100;
    O_EXCL: usize = 0o200;
    O_CLOEXEC: usize = 0o2_000_000;
    O_PATH: usize = 0o10_000_000;
    RESOLVE_NO_MAGICLINKS: u64 = 2;
    RESOLVE_NO_SYMLINKS: u64 = 4;
    RESOLVE_BENEATH: u64 = 8;
    MS_REC: usize = 0x4000;
    MS_PRIVATE: usize = 0x4_0000;
    MNT_DETACH: usize = 2;
    MOUNT_ATTR_RDONLY: u64 = 1;
    MOUNT_ATTR_NOSUID: u64 = 2;
    MOUNT_ATTR_NODEV: u64 = 4;
    OPEN_TREE_CLONE: usize = 1;
    MOVE_MOUNT_F_EMPTY_PATH: usize = 4;
    MOVE_MOUNT_T_EMPTY_PATH: usize = 64;
    FSOPEN_CLOEXEC: usize = 1;
    FSMOUNT_CLOEXEC: usize = 1;
    FSCONFIG_SET_STRING: usize = 1;
    FSCONFIG_CMD_CREATE: usize = 6;
    PR_SET_PDEATHSIG: usize = 1;
    PR_CAPBSET_DROP: usize = 24;
    PR_SET_SECUREBITS: usize = 28;
    PR_SET_CHILD_SUBREAPER: usize = 36;
    PR_SET_NO_NEW_PRIVS: usize = 38;
    PR_CAP_AMBIENT: usize = 47;
    PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;
    SECBIT_NOROOT: usize = 1;
    SECBIT_NOROOT_LOCKED: usize = 2;
    SECBIT_NO_SETUID_FIXUP: usize = 4;
    SECBIT_NO_SETUID_FIXUP_LOCKED: usize = 8;
    SECBIT_KEEP_CAPS_LOCKED: usize = 32;
    SECBIT_NO_CAP_AMBIENT_RAISE: usize = 64;
    SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED: usize = 128;
    _LINUX_CAPABILITY_VERSION_3: u32 = 0x2008_0522;
    LANDLOCK_RULE_PATH_BENEATH: usize = 1;
    SECCOMP_SET_MODE_FILTER: usize = 1;
    SECCOMP_FILTER_FLAG_NEW_LISTENER: usize = 8;
    AF_INET: usize = 2;
    SOCK_STREAM: usize = 1;
    SOCK_CLOEXEC: usize = 0o2_000_000;
    SIOCSIFFLAGS: usize = 0x8914;
    IFF_UP: u16 = 0x1;
    IFF_RUNNING: u16 = 0x40;
    SOL_SOCKET: i32 = 1;
    SCM_RIGHTS: i32 = 1;
}
