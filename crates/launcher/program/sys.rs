//! The launcher's system calls, without a C library. Results are the kernel's: negative is `-errno`.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;

#[path = "sys_confine.rs"]
mod confine;
#[path = "numbers.rs"]
mod numbers;

use core::ffi::CStr;
use core::marker::PhantomData;

pub use confine::*;
use numbers::nr;
pub use numbers::*;

const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
/// Size of the kernel's signal set in bytes.
const SIGSET: usize = 8;

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

/// An argument of a system call: a number, or the address of memory that is borrowed until the call returns.
struct Arg<'a>(usize, PhantomData<&'a ()>);

impl From<usize> for Arg<'_> {
    fn from(number: usize) -> Self {
        Arg(number, PhantomData)
    }
}

impl From<isize> for Arg<'_> {
    fn from(number: isize) -> Self {
        Arg(number as usize, PhantomData)
    }
}

impl<'a, T> From<&'a T> for Arg<'a> {
    fn from(value: &'a T) -> Self {
        Arg((&raw const *value).expose_provenance(), PhantomData)
    }
}

impl<'a, T> From<&'a mut T> for Arg<'a> {
    fn from(value: &'a mut T) -> Self {
        Arg((&raw mut *value).expose_provenance(), PhantomData)
    }
}

impl<'a> From<&'a mut [u8]> for Arg<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Arg(bytes.as_mut_ptr().expose_provenance(), PhantomData)
    }
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Arg(bytes.as_ptr().expose_provenance(), PhantomData)
    }
}

impl<'a> From<&'a CStr> for Arg<'a> {
    fn from(text: &'a CStr) -> Self {
        Arg(text.as_ptr().expose_provenance(), PhantomData)
    }
}

/// Makes a system call. Private to this module and `confine`, whose functions pass what each call expects:
/// borrowed memory of the length that the call is told, mutable where the kernel writes.
#[inline(always)]
fn make_call(number: usize, [a, b, c, d, e, f]: [Arg<'_>; 6]) -> isize {
    // SAFETY: the callers are as described above, and the memory is borrowed until the call returns.
    unsafe { arch::call(number, [a.0, b.0, c.0, d.0, e.0, f.0]) }
}

/// The name of a call in `nr` and its arguments; those not given are 0.
macro_rules! call {
    ($name:ident, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr) => {
        $crate::sys::make_call(
            $crate::sys::nr::$name,
            [$a.into(), $b.into(), $c.into(), $d.into(), $e.into(), $f.into()],
        )
    };
    ($name:ident $(, $given:expr)*) => {
        call!($name $(, $given)*, 0usize)
    };
}
use call;

pub fn exit(code: usize) -> ! {
    loop {
        call!(EXIT_GROUP, code);
    }
}

pub fn close(fd: usize) {
    call!(CLOSE, fd);
}

/// Closes every descriptor from `first` on.
pub fn close_from(first: usize) -> isize {
    call!(CLOSE_RANGE, first, u32::MAX as usize)
}

pub fn open_read(path: &CStr) -> isize {
    call!(OPENAT, AT_FDCWD, path, O_CLOEXEC)
}

pub fn open_write(path: &CStr) -> isize {
    call!(OPENAT, AT_FDCWD, path, O_WRONLY | O_CLOEXEC)
}

pub fn read(fd: usize, into: &mut [u8]) -> isize {
    let length = into.len();
    call!(READ, fd, into, length)
}

pub fn write(fd: usize, bytes: &[u8]) -> isize {
    call!(WRITE, fd, bytes, bytes.len())
}

/// Waits without timeout if `milliseconds` is `None`.
pub fn poll<const N: usize>(fds: &mut [PollFd; N], milliseconds: Option<i64>) -> isize {
    let limit = milliseconds.map(|ms| Timespec { seconds: 0, nanoseconds: ms * 1_000_000 });
    match &limit {
        Some(limit) => call!(PPOLL, fds, N, limit, 0usize, SIGSET),
        None => call!(PPOLL, fds, N, 0usize, 0usize, SIGSET),
    }
}

/// `pid` as for `wait4`: -1 is any child.
pub fn wait(pid: isize, status: &mut i32, options: usize) -> isize {
    call!(WAIT4, pid, status, options)
}

/// The stack of a new process, given by its whole memory.
type StackMemory = *mut [u8];

/// Clones the caller; the child runs `body` on its own stack and never returns. `cgroup` is the descriptor of the
/// cgroup that it is created in, or 0 for the caller's.
///
/// # Safety
/// `stack` is 16-byte-aligned memory that nothing else uses while the child lives.
pub unsafe fn clone_with_stack(
    flags: usize,
    signal: usize,
    stack: StackMemory,
    cgroup: usize,
    body: extern "C" fn() -> !,
) -> isize {
    let start = stack.cast::<u8>().expose_provenance();
    if cgroup == 0 {
        // SAFETY: the stack grows downwards from its end.
        return unsafe { arch::clone_call(nr::CLONE, [flags | signal, start + stack.len()], body) };
    }
    // Flags, pidfd, two tid addresses, signal, stack, its size, tls, two for tids, cgroup.
    let arguments = [flags | CLONE_INTO_CGROUP, 0, 0, 0, signal, start, stack.len(), 0, 0, 0, cgroup];
    let address = (&raw const arguments).expose_provenance();
    // SAFETY: as above; the kernel reads the arguments before it returns.
    unsafe { arch::clone_call(nr::CLONE3, [address, size_of_val(&arguments)], body) }
}

pub fn kill(pid: isize, signal: usize) -> isize {
    call!(KILL, pid, signal)
}

pub fn unshare(flags: usize) -> isize {
    call!(UNSHARE, flags)
}

/// Joins a namespace of that kind.
pub fn set_namespace(fd: usize, kind: usize) -> isize {
    call!(SETNS, fd, kind)
}

pub fn setsid() {
    call!(SETSID);
}

pub fn effective_uid() -> usize {
    call!(GETEUID) as usize
}

pub fn effective_gid() -> usize {
    call!(GETEGID) as usize
}

pub fn pid() -> isize {
    call!(GETPID)
}

pub fn parent_pid() -> isize {
    call!(GETPPID)
}

/// The caller gets SIGKILL when its parent exits.
pub fn die_with_parent() {
    call!(PRCTL, PR_SET_PDEATHSIG, SIGKILL);
}

/// Orphans below the caller become its children, not those of init.
pub fn set_child_subreaper() -> isize {
    call!(PRCTL, PR_SET_CHILD_SUBREAPER, 1usize)
}

/// Blocks exactly the signals whose bits are set.
pub fn block_signals(set: u64) {
    call!(RT_SIGPROCMASK, SIG_SETMASK, &set, 0usize, SIGSET);
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
    call!(SIGNALFD4, -1isize, &set, SIGSET, O_CLOEXEC)
}

/// # Safety
/// The pointers are those that `_start` got from the kernel: NUL-terminated strings, NULL-terminated lists.
pub unsafe fn execve(program: *const u8, argv: *const *const u8, envp: *const *const u8) -> isize {
    let [program, lists @ ..] = [program.cast(), argv, envp].map(|pointer| pointer.expose_provenance());
    call!(EXECVE, program, lists[0], lists[1])
}

fn set_action(signal: usize, handler: usize) {
    // Handler, flags, restorer, mask: the kernel's order on both architectures.
    let action = [handler, 0, 0, 0];
    call!(RT_SIGACTION, signal, &action, 0usize, SIGSET);
}
