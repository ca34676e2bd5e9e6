//! Holding the tree in a pid namespace: when its first process ends, the kernel kills every other one.
//!
//! The first process is a keeper that shares our memory and descriptors and does nothing but wait for the
//! control socket to close. The tool is its sibling, our own child, so that we get its wait status directly
//! and it keeps the signal behaviour of an ordinary process, which pid 1 does not have.

use core::cell::UnsafeCell;

use crate::sys::{self, PollFd};
use crate::{CONTROL, Ended, Failure, NotReady, plan, tool};

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; 4096]>);
// SAFETY: only the keeper, of which there is one, runs on it.
unsafe impl Sync for Stack {}
static STACK: Stack = Stack(UnsafeCell::new([0; 4096]));

/// Needs CAP_SYS_ADMIN.
pub fn enter() -> Result<(), NotReady> {
    unshare(sys::CLONE_NEWPID)
}

/// Enters a user namespace of our own user that is there already; making one for each tool costs more.
pub fn join_as_user() -> Result<(), NotReady> {
    let joined = sys::set_namespace(plan::USERS, sys::CLONE_NEWUSER);
    if joined < 0 {
        return Err(NotReady { entered: false, errno: -joined as i32 });
    }
    unshare(sys::CLONE_NEWPID).map_err(|failure| NotReady { entered: true, ..failure })
}

/// Works for ordinary users where user namespaces are allowed; user and group stay what they were.
pub fn enter_as_user() -> Result<(), NotReady> {
    let (uid, gid) = (sys::effective_uid(), sys::effective_gid());
    unshare(sys::CLONE_NEWUSER | sys::CLONE_NEWPID)?;
    // The kernel accepts a group map from an ordinary user only once setgroups is given up.
    put(b"/proc/self/setgroups\0", b"deny")?;
    put_identity(b"/proc/self/uid_map\0", uid)?;
    put_identity(b"/proc/self/gid_map\0", gid)
}

/// Runs the tool; returns when the namespace is empty. `own_users`: it came with a user namespace.
pub fn run(own_users: bool) -> Ended {
    let flags = sys::CLONE_VM | sys::CLONE_FILES | sys::SIGCHLD;
    let top = unsafe { STACK.0.get().add(1) }.cast();
    let keeper = unsafe { sys::clone_running(flags, top, keep) };
    if keeper < 0 {
        return Err(Failure::setup(keeper));
    }
    let started = tool::start(None, own_users);
    let mut status = 0;
    if let Ok(pid) = started {
        sys::wait(pid, &mut status, 0);
    }
    // The keeper's end is complete only when everything else in the namespace is dead.
    sys::kill(keeper, sys::SIGKILL);
    sys::wait(keeper, &mut 0, 0);
    started.and_then(|_| tool::ended(status))
}

/// The first process of the namespace. It watches the socket itself, which also covers the moment before
/// `die_with_parent` takes effect: should the launcher be killed just then, the daemon's hanging up still ends
/// the tree.
extern "C" fn keep() -> ! {
    sys::die_with_parent();
    sys::leave_reaping_to_the_kernel();
    let mut control = [PollFd { fd: CONTROL as i32, events: sys::POLLIN | sys::POLLRDHUP, revents: 0 }];
    while sys::poll(&mut control, None) <= 0 {}
    sys::exit(0)
}

fn unshare(flags: usize) -> Result<(), NotReady> {
    match sys::unshare(flags) {
        0 => Ok(()),
        result => Err(NotReady { entered: false, errno: -result as i32 }),
    }
}

fn put_identity(path: &[u8], id: usize) -> Result<(), NotReady> {
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

fn put(path: &[u8], text: &[u8]) -> Result<(), NotReady> {
    let fd = sys::open_write(path);
    if fd < 0 {
        return Err(NotReady { entered: true, errno: -fd as i32 });
    }
    let written = sys::write(fd as usize, text);
    sys::close(fd as usize);
    if written < 0 { Err(NotReady { entered: true, errno: -written as i32 }) } else { Ok(()) }
}
