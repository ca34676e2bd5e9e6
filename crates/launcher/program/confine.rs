//! Runs a launch script in the tool's process, before the tool is executed.
//!
//! If a step fails, the tool is not started. The daemon has validated the script, yet every read from it is
//! bounded: a truncated script is a failed step, never a weaker sandbox.

use core::cell::UnsafeCell;

use crate::sys;
use crate::{CONTROL, opcodes};

struct Buffer(UnsafeCell<[u8; opcodes::MAX]>);
// SAFETY: filled before the tool's process exists, then only read.
unsafe impl Sync for Buffer {}
static SCRIPT: Buffer = Buffer(UnsafeCell::new([0; opcodes::MAX]));

const EINVAL: isize = -22;
const MAX_CAPABILITY: usize = 64;

/// A step that failed.
pub struct StepError {
    pub step: i32,
    pub errno: i32,
}

#[derive(Clone, Copy)]
pub struct LaunchScript {
    bytes: &'static [u8],
    /// Clone flags of the namespaces to create with the tool's process.
    pub namespaces: usize,
}

impl LaunchScript {
    /// Reads the script that the daemon wrote before it started the launcher.
    pub fn receive() -> Result<LaunchScript, isize> {
        let buffer = unsafe { &mut *SCRIPT.0.get() };
        let mut have = 0;
        let mut want = opcodes::HEADER;
        while have < want {
            let n = sys::read(CONTROL, &mut buffer[have..want]);
            if n <= 0 {
                return Err(if n == 0 { EINVAL } else { n });
            }
            have += n as usize;
            if want == opcodes::HEADER && have == want {
                want = u32_at(buffer, 0) as usize;
                if want < opcodes::HEADER || want > opcodes::MAX {
                    return Err(EINVAL);
                }
            }
        }
        let namespaces = u32_at(buffer, 4) as usize;
        Ok(LaunchScript { bytes: unsafe { &(&*SCRIPT.0.get())[opcodes::HEADER..want] }, namespaces })
    }

    /// Runs every step. `own_userns`: the tool has its own user namespace.
    pub fn apply(self, own_userns: bool) -> Result<(), StepError> {
        let mut reader = Reader { left: self.bytes };
        let mut state = State { root: -1, ruleset: -1, own_userns };
        let mut step = 0;
        while !reader.left.is_empty() {
            let result = run(&mut reader, &mut state);
            if result < 0 {
                return Err(StepError { step, errno: -result as i32 });
            }
            step += 1;
        }
        // Closes namespaces and paths opened by the steps.
        sys::close_from(CONTROL + 1);
        Ok(())
    }
}

struct State {
    root: isize,
    ruleset: isize,
    own_userns: bool,
}

fn run(script: &mut Reader, state: &mut State) -> isize {
    let Some(op) = script.byte() else { return EINVAL };
    step(op, script, state).unwrap_or(EINVAL)
}

fn step(op: u8, script: &mut Reader, state: &mut State) -> Option<isize> {
    Some(match op {
        opcodes::ROOT => new_root(state),
        opcodes::DIR => {
            let mode = script.number()?;
            ignore_eexist(sys::make_dir(script.text()?, mode as usize))
        }
        opcodes::SYMLINK => ignore_eexist(sys::symlink(script.text()?, script.text()?)),
        opcodes::FILE => {
            let path = script.text()?;
            let content = script.block()?;
            file(path, content)
        }
        opcodes::BIND => bind(script.number()?, script.text()?, script.text()?),
        opcodes::TMPFS => {
            let (flags, options, path) = (script.number()?, script.text()?, script.text()?);
            sys::mount(b"tmpfs\0", path, b"tmpfs\0", flags as usize, options)
        }
        opcodes::PROC => {
            let flags = sys::MS_RDONLY | sys::MS_NOSUID | sys::MS_NODEV | sys::MS_NOEXEC;
            sys::mount(b"proc\0", script.text()?, b"proc\0", flags, b"\0")
        }
        opcodes::PIVOT => pivot(state),
        opcodes::CHDIR => sys::change_dir(script.text()?),
        opcodes::LIMIT => {
            let (resource, soft, hard, own) =
                (script.number()?, script.long()?, script.long()?, script.number()?);
            if own == 0 || state.own_userns { sys::set_limit(resource as usize, soft, hard) } else { 0 }
        }
        opcodes::LISTEN => listen(script.number()? as u16),
        opcodes::DROP_PRIVILEGES => drop_privileges(),
        opcodes::RULESET => {
            let (size, attributes) = (script.number()?, [script.long()?, script.long()?, script.long()?]);
            state.ruleset = sys::landlock_create(&attributes, size as usize);
            state.ruleset
        }
        opcodes::RULE => {
            let access = script.long()?;
            rule(state.ruleset, access, sys::open_path(script.text()?))
        }
        opcodes::RULE_SELF => rule(state.ruleset, script.long()?, sys::open_proc_self()),
        opcodes::RESTRICT => {
            let result = sys::landlock_restrict(state.ruleset as usize);
            sys::close(state.ruleset as usize);
            result
        }
        opcodes::FILTER => sys::set_filter(script.block()?),
        opcodes::JOIN => {
            let kind = script.number()?;
            sys::set_namespace(script.number()? as usize, kind as usize)
        }
        opcodes::SEND_VIEW => send(opcodes::TAG_VIEW, sys::open_read(b"/proc/self/ns/mnt\0")),
        opcodes::ENTER_VIEW => {
            // The view is shared; later mounts must not be.
            let entered = sys::set_namespace(script.number()? as usize, sys::CLONE_NEWNS);
            if entered < 0 { entered } else { sys::unshare(sys::CLONE_NEWNS) }
        }
        opcodes::MOVE => sys::move_from(script.text()?, script.text()?),
        opcodes::SEAL => sys::seal(script.text()?),
        _ => return None,
    })
}

/// Mounts an empty tmpfs on top of `/`: absolute paths still refer to the old root, the new one is entered by
/// its descriptor, and no folder of the host is needed as mount point.
fn new_root(state: &mut State) -> isize {
    let private = sys::mount(b"none\0", b"/\0", b"\0", sys::MS_REC | sys::MS_PRIVATE, b"\0");
    if private < 0 {
        return private;
    }
    state.root = sys::new_tmpfs(b"1m\0");
    if state.root < 0 {
        return state.root;
    }
    let moved = sys::move_mount(state.root as usize, b"/\0");
    if moved < 0 { moved } else { sys::change_dir_to(state.root as usize) }
}

fn pivot(state: &State) -> isize {
    let results = [
        sys::pivot_here(),
        sys::detach_here(),
        sys::change_dir(b"/\0"),
        // The tool may own the root and could otherwise fill it.
        sys::set_mount(state.root as usize, sys::MOUNT_RDONLY | sys::MOUNT_NOSUID | sys::MOUNT_NODEV, 0),
    ];
    sys::close(state.root as usize);
    results.into_iter().find(|result| *result < 0).unwrap_or(0)
}

fn bind(attributes: u32, source: &[u8], path: &[u8]) -> isize {
    // Links are not followed: the daemon resolved them, and a tool may have created one since.
    let path_fd = sys::open_path(source);
    if path_fd < 0 {
        return path_fd;
    }
    let tree = sys::clone_tree(path_fd as usize);
    sys::close(path_fd as usize);
    if tree < 0 {
        return tree;
    }
    let mut result = sys::set_mount(tree as usize, attributes as u64, sys::AT_RECURSIVE);
    if result >= 0 {
        result = sys::move_mount(tree as usize, path);
    }
    sys::close(tree as usize);
    result
}

fn file(path: &[u8], content: &[u8]) -> isize {
    let fd = sys::create(path);
    if fd < 0 || content.is_empty() {
        sys::close(fd as usize);
        return fd;
    }
    let written = sys::write(fd as usize, content);
    sys::close(fd as usize);
    if written == content.len() as isize { 0 } else { written.min(EINVAL) }
}

fn rule(ruleset: isize, access: u64, path_fd: isize) -> isize {
    if path_fd < 0 {
        return path_fd;
    }
    let result = sys::landlock_allow(ruleset as usize, access, path_fd as i32);
    sys::close(path_fd as usize);
    result
}

/// Brings up the namespace's loopback interface and sends the daemon a socket listening on it.
fn listen(port: u16) -> isize {
    let socket = sys::tcp_socket();
    if socket < 0 {
        return socket;
    }
    let mut result = sys::loopback_up(socket as usize);
    if result >= 0 {
        result = sys::listen_on_loopback(socket as usize, port);
    }
    if result >= 0 {
        return send(opcodes::TAG_LISTENER, socket);
    }
    sys::close(socket as usize);
    result
}

/// Sends a descriptor to the daemon with a tag byte.
fn send(tag: u8, descriptor: isize) -> isize {
    if descriptor < 0 {
        return descriptor;
    }
    let result = sys::send_descriptor(CONTROL, &[tag], descriptor as i32);
    sys::close(descriptor as usize);
    result.min(0)
}

fn drop_privileges() -> isize {
    let result = sys::no_new_privileges();
    if result < 0 {
        return result;
    }
    for capability in 0..MAX_CAPABILITY {
        // Fails past the last capability, or without CAP_SETPCAP; then no_new_privs already keeps an exec
        // from gaining capabilities.
        if sys::drop_bounding_capability(capability) < 0 {
            break;
        }
    }
    sys::lock_securebits();
    sys::clear_ambient();
    sys::clear_capabilities()
}

fn ignore_eexist(result: isize) -> isize {
    if result == -sys::EEXIST { 0 } else { result }
}

struct Reader {
    left: &'static [u8],
}

impl Reader {
    fn take(&mut self, n: usize) -> Option<&'static [u8]> {
        if n > self.left.len() {
            return None;
        }
        let (taken, left) = self.left.split_at(n);
        self.left = left;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32_at(bytes, 0))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from(self.number()?) | u64::from(self.number()?) << 32)
    }

    /// Includes the NUL.
    fn text(&mut self) -> Option<&'static [u8]> {
        let end = self.left.iter().position(|byte| *byte == 0)?;
        self.take(end + 1)
    }

    fn block(&mut self) -> Option<&'static [u8]> {
        let length = self.number()?;
        self.take(length as usize)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
