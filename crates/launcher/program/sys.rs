//! The launcher's system calls, without a C library. Results are the kernel's: negative is `-errno`.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;

#[path = "sys_confine.rs"]
mod confine;

pub use arch::clone_with_stack;
use arch::{call, nr};
pub use confine::*;

pub const CLONE_VM: usize = 0x100;
pub const CLONE_FILES: usize = 0x400;
pub const CLONE_VFORK: usize = 0x4000;
pub const CLONE_NEWNS: usize = 0x2_0000;
pub const CLONE_NEWUSER: usize = 0x1000_0000;
pub const CLONE_NEWPID: usize = 0x2000_0000;
pub const SIGKILL: usize = 9;
pub const SIGCHLD: usize = 17;
pub const WNOHANG: usize = 1;
pub const POLLIN: i16 = 0x1;
pub const POLLRDHUP: i16 = 0x2000;
pub const ECHILD: isize = 10;

const AT_FDCWD: usize = -100isize as usize;
const O_WRONLY: usize = 1;
const O_CLOEXEC: usize = 0o2_000_000;
const SIG_SETMASK: usize = 2;
const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
/// Size of the kernel's signal set in bytes.
const SIGSET: usize = 8;
const PR_SET_PDEATHSIG: usize = 1;
const PR_SET_CHILD_SUBREAPER: usize = 36;

#[repr(C)]
pub struct PollFd {
    pub fd: i32,
    pub events: i16,
    pub revents: i16,
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

pub fn exit(code: usize) -> ! {
    loop {
        unsafe { call(nr::EXIT_GROUP, [code, 0, 0, 0, 0, 0]) };
    }
}

pub fn close(fd: usize) {
    unsafe { call(nr::CLOSE, [fd, 0, 0, 0, 0, 0]) };
}

/// Closes every descriptor from `first` on.
pub fn close_from(first: usize) -> isize {
    unsafe { call(nr::CLOSE_RANGE, [first, u32::MAX as usize, 0, 0, 0, 0]) }
}

/// `path` must end in NUL.
pub fn open_read(path: &[u8]) -> isize {
    unsafe { call(nr::OPENAT, [AT_FDCWD, path.as_ptr() as usize, O_CLOEXEC, 0, 0, 0]) }
}

/// `path` must end in NUL.
pub fn open_write(path: &[u8]) -> isize {
    unsafe { call(nr::OPENAT, [AT_FDCWD, path.as_ptr() as usize, O_WRONLY | O_CLOEXEC, 0, 0, 0]) }
}

pub fn read(fd: usize, into: &mut [u8]) -> isize {
    unsafe { call(nr::READ, [fd, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) }
}

pub fn write(fd: usize, bytes: &[u8]) -> isize {
    unsafe { call(nr::WRITE, [fd, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) }
}

/// Waits without timeout if `milliseconds` is `None`.
pub fn poll(fds: &mut [PollFd], milliseconds: Option<i64>) -> isize {
    let limit = Timespec { seconds: 0, nanoseconds: milliseconds.unwrap_or(0) * 1_000_000 };
    let limit = if milliseconds.is_some() { &raw const limit as usize } else { 0 };
    unsafe { call(nr::PPOLL, [fds.as_mut_ptr() as usize, fds.len(), limit, 0, SIGSET, 0]) }
}

/// `pid` as for `wait4`: -1 is any child.
pub fn wait(pid: isize, status: &mut i32, options: usize) -> isize {
    unsafe { call(nr::WAIT4, [pid as usize, &raw mut *status as usize, options, 0, 0, 0]) }
}

pub fn kill(pid: isize, signal: usize) -> isize {
    unsafe { call(nr::KILL, [pid as usize, signal, 0, 0, 0, 0]) }
}

pub fn unshare(flags: usize) -> isize {
    unsafe { call(nr::UNSHARE, [flags, 0, 0, 0, 0, 0]) }
}

/// Joins a namespace of that kind.
pub fn set_namespace(fd: usize, kind: usize) -> isize {
    unsafe { call(nr::SETNS, [fd, kind, 0, 0, 0, 0]) }
}

pub fn setsid() {
    unsafe { call(nr::SETSID, [0; 6]) };
}

pub fn effective_uid() -> usize {
    unsafe { call(nr::GETEUID, [0; 6]) as usize }
}

pub fn effective_gid() -> usize {
    unsafe { call(nr::GETEGID, [0; 6]) as usize }
}

pub fn pid() -> isize {
    unsafe { call(nr::GETPID, [0; 6]) }
}

pub fn parent_pid() -> isize {
    unsafe { call(nr::GETPPID, [0; 6]) }
}

/// The caller gets SIGKILL when its parent exits.
pub fn die_with_parent() {
    unsafe { call(nr::PRCTL, [PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0]) };
}

/// Orphans below the caller become its children, not those of init.
pub fn set_child_subreaper() -> isize {
    unsafe { call(nr::PRCTL, [PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0]) }
}

/// Blocks exactly the signals whose bits are set.
pub fn block_signals(set: u64) {
    unsafe { call(nr::RT_SIGPROCMASK, [SIG_SETMASK, &raw const set as usize, 0, SIGSET, 0, 0]) };
}

/// Makes the kernel reap the caller's children.
pub fn ignore_sigchld() {
    set_action(SIGCHLD, SIG_IGN);
}

/// glibc's `posix_spawn` resets all signals except two that it reserves for threads and ignores.
pub fn reset_glibc_signals() {
    set_action(32, SIG_DFL);
    set_action(33, SIG_DFL);
}

/// A descriptor that becomes readable when a child exits; SIGCHLD must be blocked.
pub fn sigchld_fd() -> isize {
    let set = 1u64 << (SIGCHLD - 1);
    unsafe { call(nr::SIGNALFD4, [usize::MAX, &raw const set as usize, SIGSET, O_CLOEXEC, 0, 0]) }
}

/// # Safety
/// The pointers are those that `_start` got from the kernel: NUL-terminated strings, NULL-terminated lists.
pub unsafe fn execve(program: *const u8, argv: *const *const u8, envp: *const *const u8) -> isize {
    unsafe { call(nr::EXECVE, [program as usize, argv as usize, envp as usize, 0, 0, 0]) }
}

fn set_action(signal: usize, handler: usize) {
    // Handler, flags, restorer, mask: the kernel's order on both architectures.
    let action = [handler, 0, 0, 0];
    unsafe { call(nr::RT_SIGACTION, [signal, action.as_ptr() as usize, 0, SIGSET, 0, 0]) };
}
