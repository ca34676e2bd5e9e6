//! aarch64: entry, system call, clone.

use core::arch::{asm, global_asm};

pub mod nr {
    pub const IOCTL: usize = 29;
    pub const MKDIRAT: usize = 34;
    pub const SYMLINKAT: usize = 36;
    pub const UMOUNT2: usize = 39;
    pub const MOUNT: usize = 40;
    pub const PIVOT_ROOT: usize = 41;
    pub const CHDIR: usize = 49;
    pub const FCHDIR: usize = 50;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const PPOLL: usize = 73;
    pub const SIGNALFD4: usize = 74;
    pub const CAPSET: usize = 91;
    pub const EXIT_GROUP: usize = 94;
    pub const UNSHARE: usize = 97;
    pub const SETNS: usize = 268;
    pub const KILL: usize = 129;
    pub const RT_SIGACTION: usize = 134;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const SETSID: usize = 157;
    pub const PRCTL: usize = 167;
    pub const GETPID: usize = 172;
    pub const GETPPID: usize = 173;
    pub const GETEUID: usize = 175;
    pub const GETEGID: usize = 177;
    pub const SOCKET: usize = 198;
    pub const BIND: usize = 200;
    pub const LISTEN: usize = 201;
    pub const SENDMSG: usize = 211;
    pub const CLONE: usize = 220;
    pub const EXECVE: usize = 221;
    pub const WAIT4: usize = 260;
    pub const PRLIMIT64: usize = 261;
    pub const SECCOMP: usize = 277;
    pub const OPEN_TREE: usize = 428;
    pub const MOVE_MOUNT: usize = 429;
    pub const FSOPEN: usize = 430;
    pub const FSCONFIG: usize = 431;
    pub const FSMOUNT: usize = 432;
    pub const CLOSE_RANGE: usize = 436;
    pub const OPENAT2: usize = 437;
    pub const MOUNT_SETATTR: usize = 442;
    pub const LANDLOCK_CREATE_RULESET: usize = 444;
    pub const LANDLOCK_ADD_RULE: usize = 445;
    pub const LANDLOCK_RESTRICT_SELF: usize = 446;
}

// The kernel puts argc, argv and envp on the stack; pass its address to Rust.
global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, xzr",
    "mov x30, xzr",
    "mov x0, sp",
    "bl {start}",
    "brk #1",
    start = sym crate::start
);

/// # Safety
/// The arguments must be what the call expects; pointers must stay valid for it.
pub unsafe fn call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") a[0] => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    result
}

/// Clones the caller; the child runs `body` on its own stack and never returns.
///
/// # Safety
/// `stack_top` is the 16-byte-aligned end of memory that nothing else uses while the child lives.
pub unsafe fn clone_with_stack(flags: usize, stack_top: *mut u8, body: extern "C" fn() -> !) -> isize {
    let result: isize;
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "blr x9",
            "brk #1",
            "2:",
            in("x8") nr::CLONE,
            inlateout("x0") flags => result,
            in("x1") stack_top, in("x2") 0usize, in("x3") 0usize, in("x4") 0usize,
            in("x9") body,
        );
    }
    result
}
