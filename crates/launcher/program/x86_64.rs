//! x86_64: entry, system call, clone.

use core::arch::{asm, global_asm};

pub mod nr {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const IOCTL: usize = 16;
    pub const GETPID: usize = 39;
    pub const SOCKET: usize = 41;
    pub const SENDMSG: usize = 46;
    pub const BIND: usize = 49;
    pub const LISTEN: usize = 50;
    pub const CLONE: usize = 56;
    pub const EXECVE: usize = 59;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const CHDIR: usize = 80;
    pub const FCHDIR: usize = 81;
    pub const GETEUID: usize = 107;
    pub const GETEGID: usize = 108;
    pub const GETPPID: usize = 110;
    pub const SETSID: usize = 112;
    pub const CAPSET: usize = 126;
    pub const PIVOT_ROOT: usize = 155;
    pub const PRCTL: usize = 157;
    pub const MOUNT: usize = 165;
    pub const UMOUNT2: usize = 166;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const MKDIRAT: usize = 258;
    pub const SYMLINKAT: usize = 266;
    pub const PPOLL: usize = 271;
    pub const UNSHARE: usize = 272;
    pub const SETNS: usize = 308;
    pub const SIGNALFD4: usize = 289;
    pub const PRLIMIT64: usize = 302;
    pub const SECCOMP: usize = 317;
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
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    start = sym crate::start
);

/// # Safety
/// The arguments must be what the call expects; pointers must stay valid for it.
pub unsafe fn call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
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
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "call r9",
            "ud2",
            "2:",
            inlateout("rax") nr::CLONE as isize => result,
            in("rdi") flags, in("rsi") stack_top, in("rdx") 0usize,
            in("r10") 0usize, in("r8") 0usize, in("r9") body,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}
