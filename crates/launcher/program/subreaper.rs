//! Contains the tree without namespaces: orphans become children of the launcher, which kills all its
//! children. Weaker than a namespace, since a tool of the same user can kill the launcher first.

use core::array;
use core::ffi::CStr;

use crate::sys::{self, PollFd};
use crate::{CONTROL, Failure, LevelError, ToolResult, tool};

/// Our children, by the pid in the mounted /proc, which may differ from `getpid`.
const CHILDREN: &CStr = c"/proc/thread-self/children";
/// Interval of re-reading the list, which may miss children that appear meanwhile.
const AGAIN_MS: i64 = 10;

pub fn enter() -> Result<(), LevelError> {
    let list = sys::open_read(CHILDREN);
    if list < 0 {
        return Err(LevelError { irreversible: false, errno: -list as i32 });
    }
    sys::close(list as usize);
    match sys::set_child_subreaper() {
        0 => Ok(()),
        result => Err(LevelError { irreversible: false, errno: -result as i32 }),
    }
}

/// Runs the tool; returns when no descendant is left.
pub fn run() -> ToolResult {
    // The daemon already blocks them, but without this the loop below could wait forever.
    sys::block_signals(u64::MAX);
    let signals = sys::sigchld_fd();
    if signals < 0 {
        return Err(Failure::setup(signals));
    }
    let mut watch = [
        PollFd { fd: signals as i32, events: sys::POLLIN, revents: 0 },
        PollFd { fd: CONTROL as i32, events: sys::POLLIN | sys::POLLRDHUP, revents: 0 },
    ];
    let mut tool = Tool { pid: tool::start(Some(sys::pid()), false)?, status: None };
    while tool.status.is_none() && watch[1].revents == 0 {
        sys::poll(&mut watch, None);
        drain_signal(&watch[0]);
        reap(&mut tool);
    }
    kill_children(tool.pid);
    while reap(&mut tool) {
        sys::poll(array::from_mut(&mut watch[0]), Some(AGAIN_MS));
        drain_signal(&watch[0]);
        kill_children(tool.pid);
    }
    tool::exit_result(tool.status.unwrap_or(sys::SIGKILL as i32))
}

struct Tool {
    pid: isize,
    status: Option<i32>,
}

/// Reaps exited children; false if there are no children left.
fn reap(tool: &mut Tool) -> bool {
    loop {
        let mut status = 0;
        match sys::wait(-1, &mut status, sys::WNOHANG) {
            0 => return true,
            pid if pid == tool.pid => tool.status = Some(status),
            result if result == -sys::ECHILD => return false,
            _ => {}
        }
    }
}

fn drain_signal(signals: &PollFd) {
    if signals.revents != 0 {
        sys::read(signals.fd as usize, &mut [0; 128]);
    }
}

/// The pids cannot be reused meanwhile, because only this process reaps them.
fn kill_children(tool: isize) {
    let list = sys::open_read(CHILDREN);
    if list < 0 {
        // /proc is no longer readable: kill at least the tool and its process group.
        sys::kill(-tool, sys::SIGKILL);
        sys::kill(tool, sys::SIGKILL);
        return;
    }
    let mut text = [0; 1024];
    let mut pid = 0isize;
    loop {
        let n = sys::read(list as usize, &mut text);
        if n <= 0 {
            break;
        }
        for &byte in text.iter().take(n as usize) {
            if byte.is_ascii_digit() {
                pid = pid * 10 + isize::from(i16::from(byte - b'0'));
            } else if pid > 0 {
                sys::kill(pid, sys::SIGKILL);
                pid = 0;
            }
        }
    }
    sys::close(list as usize);
}
