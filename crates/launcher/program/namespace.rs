//! Contains the tree in a pid namespace: when its first process exits, the kernel kills all others.
//!
//! The first process is an init that shares the launcher's memory and descriptors and only waits for the
//! control socket to close. The tool is its sibling and the launcher's child, so that the launcher gets its
//! wait status and the tool has the signal behaviour of an ordinary process, unlike pid 1.

use core::cell::UnsafeCell;
use core::ffi::CStr;

use crate::sys::{self, PollFd};
use crate::{CONTROL, Failure, LevelError, ToolResult, script, tool};

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; 4096]>);
// SAFETY: used only by the single init process.
unsafe impl Sync for Stack {}
static STACK: Stack = Stack(UnsafeCell::new([0; 4096]));

/// Needs CAP_SYS_ADMIN.
pub fn enter() -> Result<(), LevelError> {
    unshare(sys::CLONE_NEWPID)
}

/// Joins an existing user namespace of the same user, which is cheaper than creating one for each tool.
pub fn join_as_user() -> Result<(), LevelError> {
    let joined = sys::set_namespace(script::FD_USERNS, sys::CLONE_NEWUSER);
    if joined < 0 {
        return Err(LevelError { irreversible: false, errno: -joined as i32 });
    }
    unshare(sys::CLONE_NEWPID).map_err(|failure| LevelError { irreversible: true, ..failure })
}

/// Works for ordinary users where user namespaces are allowed; user and group ids stay the same.
pub fn enter_as_user() -> Result<(), LevelError> {
    let (uid, gid) = (sys::effective_uid(), sys::effective_gid());
    unshare(sys::CLONE_NEWUSER | sys::CLONE_NEWPID)?;
    // The kernel accepts a group map from an ordinary user only after setgroups is denied.
    put(c"/proc/self/setgroups", b"deny")?;
    put_identity(c"/proc/self/uid_map", uid)?;
    put_identity(c"/proc/self/gid_map", gid)
}

/// Runs the tool; returns when the namespace is empty. `own_userns`: it has its own user namespace.
pub fn run(own_userns: bool) -> ToolResult {
    let flags = sys::CLONE_VM | sys::CLONE_FILES;
    // SAFETY: an aligned stack that only this one process uses.
    let init = unsafe { sys::clone_with_stack(flags, sys::SIGCHLD, STACK.0.get(), 0, init_main) };
    if init < 0 {
        return Err(Failure::setup(init));
    }
    let started = tool::start(None, own_userns);
    let mut status = 0;
    if let Ok(pid) = started {
        sys::wait(pid, &mut status, 0);
    }
    // The init can be reaped only after all other processes of the namespace are dead.
    sys::kill(init, sys::SIGKILL);
    sys::wait(init, &mut 0, 0);
    started.and_then(|_| tool::exit_result(status))
}

/// The first process of the namespace. It polls the socket itself: if the launcher is killed before
/// `die_with_parent` takes effect, the tree still ends when the daemon closes the socket.
extern "C" fn init_main() -> ! {
    sys::die_with_parent();
    sys::ignore_sigchld();
    let mut control = [PollFd { fd: CONTROL as i32, events: sys::POLLIN | sys::POLLRDHUP, revents: 0 }];
    while sys::poll(&mut control, None) <= 0 {}
    sys::exit(0)
}

fn unshare(flags: usize) -> Result<(), LevelError> {
    match sys::unshare(flags) {
        0 => Ok(()),
        result => Err(LevelError { irreversible: false, errno: -result as i32 }),
    }
}

fn put_identity(path: &CStr, id: usize) -> Result<(), LevelError> {
    let mut line = [0; 32];
    let mut end = push_number(&mut line, 0, id);
    line[end] = b' ';
    end = push_number(&mut line, end + 1, id);
    line[end..end + 2].copy_from_slice(b" 1");
    put(path, &line[..end + 2])
}

fn push_number(line: &mut [u8; 32], at: usize, number: usize) -> usize {
    let mut digits = 1;
    let mut rest = number / 10;
    while rest > 0 {
        digits += 1;
        rest /= 10;
    }
    rest = number;
    for i in (at..at + digits).rev() {
        line[i] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    at + digits
}

fn put(path: &CStr, text: &[u8]) -> Result<(), LevelError> {
    let fd = sys::open_write(path);
    if fd < 0 {
        return Err(LevelError { irreversible: true, errno: -fd as i32 });
    }
    let written = sys::write(fd as usize, text);
    sys::close(fd as usize);
    if written < 0 { Err(LevelError { irreversible: true, errno: -written as i32 }) } else { Ok(()) }
}
