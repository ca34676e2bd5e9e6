//! Runs a launch script in the tool's process, before the tool is executed.
//!
//! If a step fails, the tool is not started. The daemon has validated the script, yet every read from it is
//! bounded: a truncated script is a failed step, never a weaker sandbox.

use core::cell::UnsafeCell;
use core::ffi::CStr;

use crate::script::{self, Reader, Step};
use crate::sys;
use crate::CONTROL;

struct Buffer(UnsafeCell<[u8; script::MAX]>);
// SAFETY: filled before the tool's process exists, then only read.
unsafe impl Sync for Buffer {}
static SCRIPT: Buffer = Buffer(UnsafeCell::new([0; script::MAX]));

const MAX_CAPABILITY: usize = 64;

/// A step that failed.
pub struct StepError {
    pub step: i32,
    pub errno: i32,
}

#[derive(Clone, Copy)]
pub struct LaunchScript {
    steps: &'static [u8],
    /// Clone flags of the namespaces to create with the tool's process.
    pub namespaces: usize,
    /// The cgroup to create it in, or 0.
    pub cgroup: usize,
}

impl LaunchScript {
    /// Reads the script that the daemon wrote before it started the launcher.
    pub fn receive() -> Result<LaunchScript, isize> {
        // SAFETY: called once, before there is another process or reference.
        let buffer = unsafe { &mut *SCRIPT.0.get() };
        let mut have = 0;
        let mut want = script::HEADER;
        while have < want {
            let n = sys::read(CONTROL, &mut buffer[have..want]);
            if n <= 0 {
                return Err(if n == 0 { -sys::EINVAL } else { n });
            }
            have += n as usize;
            if want == script::HEADER && have == want {
                let mut header = Reader { left: &buffer[..want] };
                want = header.u32().unwrap_or(0) as usize;
                if !(script::HEADER..=script::MAX).contains(&want) {
                    return Err(-sys::EINVAL);
                }
            }
        }
        let (header, steps) = buffer[..want].split_at(script::HEADER);
        let mut header = Reader { left: &header[4..] };
        let [namespaces, cgroup] = [(); 2].map(|()| header.u32().unwrap_or(0) as usize);
        Ok(LaunchScript { steps, namespaces, cgroup })
    }

    /// Runs every step. `own_userns`: the tool has its own user namespace.
    pub fn apply(self, own_userns: bool) -> Result<(), StepError> {
        let mut reader = Reader { left: self.steps };
        let mut state = State { root: -1, ruleset: -1, own_userns };
        let mut step = 0;
        while !reader.left.is_empty() {
            let result = Step::decode(&mut reader).map_or(-sys::EINVAL, |step| run(step, &mut state));
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

fn run(step: Step<&CStr, &[u8]>, state: &mut State) -> isize {
    match step {
        Step::Root {} => new_root(state),
        Step::Dir { mode, path } => ignore_eexist(sys::make_dir(path, mode as usize)),
        Step::Symlink { target, path } => ignore_eexist(sys::symlink(target, path)),
        Step::File { path, content } => file(path, content),
        Step::Bind { attributes, device, inode, source, path } => bind(attributes, [device, inode], source, path),
        Step::Mount { kind, flags, options, path } => sys::mount(kind, path, kind, flags as usize, options),
        Step::Pivot {} => pivot(state),
        Step::Chdir { path } => sys::change_dir(path),
        Step::Limit { own, .. } if own != 0 && !state.own_userns => 0,
        Step::Limit { resource, soft, hard, .. } => sys::set_limit(resource as usize, soft, hard),
        Step::Loopback {} => loopback(),
        Step::SendNetwork {} => send(script::TAG_NETWORK, sys::open_read(c"/proc/self/ns/net")),
        Step::Listen { port } => listen(port as u16),
        Step::DropPrivileges {} => drop_privileges(),
        Step::Ruleset { size, fs, net, scoped } => {
            state.ruleset = sys::landlock_create(&[fs, net, scoped], size as usize);
            state.ruleset
        }
        Step::Rule { access, follow: 1, path, .. } => {
            rule(state.ruleset, access, sys::open_path_following(path))
        }
        Step::Rule { access, device, inode, path, .. } => {
            rule(state.ruleset, access, open_same(path, [device, inode]))
        }
        Step::Restrict {} => {
            let result = sys::landlock_restrict(state.ruleset as usize);
            sys::close(state.ruleset as usize);
            result
        }
        Step::Filter { instructions } => sys::set_filter(instructions, 0),
        Step::Trace { instructions } => {
            send(script::TAG_TRACE, sys::set_filter(instructions, sys::SECCOMP_FILTER_FLAG_NEW_LISTENER))
        }
        Step::Join { kind, descriptor } => sys::set_namespace(descriptor as usize, kind as usize),
        Step::SendView {} => send(script::TAG_VIEW, sys::open_read(c"/proc/self/ns/mnt")),
        Step::EnterView { descriptor } => {
            // The view is shared; later mounts must not be.
            let entered = sys::set_namespace(descriptor as usize, sys::CLONE_NEWNS);
            if entered < 0 { entered } else { sys::unshare(sys::CLONE_NEWNS) }
        }
        Step::Move { source, path } => sys::move_from(source, path),
        Step::Seal { path } => sys::seal(path),
        // 0 is the writer.
        Step::JoinCgroup { descriptor } => sys::write(descriptor as usize, b"0").min(0),
    }
}

/// Mounts an empty tmpfs on top of `/`: absolute paths still refer to the old root, the new one is entered by
/// its descriptor, and no folder of the host is needed as mount point.
fn new_root(state: &mut State) -> isize {
    let private = sys::mount(c"none", c"/", c"", sys::MS_REC | sys::MS_PRIVATE, c"");
    if private < 0 {
        return private;
    }
    state.root = sys::new_tmpfs(c"1m");
    if state.root < 0 {
        return state.root;
    }
    let moved = sys::move_mount(state.root as usize, c"/");
    if moved < 0 { moved } else { sys::change_dir_to(state.root as usize) }
}

fn pivot(state: &State) -> isize {
    let results = [
        sys::pivot_here(),
        sys::detach_here(),
        sys::change_dir(c"/"),
        // The tool may own the root and could otherwise fill it.
        sys::set_mount(state.root as usize, sys::MOUNT_ATTR_RDONLY | sys::MOUNT_ATTR_NOSUID | sys::MOUNT_ATTR_NODEV, 0),
    ];
    sys::close(state.root as usize);
    results.into_iter().find(|result| *result < 0).unwrap_or(0)
}

/// Opens a path without following links: the daemon resolved them, and a tool may have created one since. What
/// the daemon checked must still be there; an inode of 0 is not compared.
fn open_same(path: &CStr, checked: [u64; 2]) -> isize {
    let fd = sys::open_path(path);
    if fd < 0 || checked[1] == 0 {
        return fd;
    }
    let error = match sys::identity(fd as usize) {
        Ok(found) if found == checked => return fd,
        Ok(_) => -sys::ESTALE,
        Err(error) => error,
    };
    sys::close(fd as usize);
    error
}

fn bind(attributes: u32, checked: [u64; 2], source: &CStr, path: &CStr) -> isize {
    let path_fd = open_same(source, checked);
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
        result = mount_at(tree as usize, path);
    }
    sys::close(tree as usize);
    result
}

/// The mount point may lie in a folder that another tool can write, so that links are not followed here either.
fn mount_at(tree: usize, path: &CStr) -> isize {
    let target = sys::open_path_beneath(path);
    if target < 0 {
        return target;
    }
    let result = sys::move_mount_to(tree, target as usize);
    sys::close(target as usize);
    result
}

fn file(path: &CStr, content: &[u8]) -> isize {
    let fd = sys::create(path);
    if fd < 0 || content.is_empty() {
        sys::close(fd as usize);
        return fd;
    }
    let written = sys::write(fd as usize, content);
    sys::close(fd as usize);
    if written == content.len() as isize { 0 } else { written.min(-sys::EINVAL) }
}

fn rule(ruleset: isize, access: u64, path_fd: isize) -> isize {
    if path_fd < 0 {
        return path_fd;
    }
    let result = sys::landlock_allow(ruleset as usize, access, path_fd as i32);
    sys::close(path_fd as usize);
    result
}

fn loopback() -> isize {
    let socket = sys::tcp_socket();
    if socket < 0 {
        return socket;
    }
    let result = sys::loopback_up(socket as usize);
    sys::close(socket as usize);
    result
}

/// Sends the daemon a socket that listens on the loopback interface.
fn listen(port: u16) -> isize {
    let socket = sys::tcp_socket();
    if socket < 0 {
        return socket;
    }
    let result = sys::listen_on_loopback(socket as usize, port);
    if result >= 0 {
        return send(script::TAG_LISTENER, socket);
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
