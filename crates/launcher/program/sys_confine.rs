//! The system calls for the sandbox: mounts, limits, capabilities, Landlock, seccomp.

use core::ffi::CStr;

use super::call;
use super::numbers::*;

/// From here on uid 0 has no special privileges; locked.
const SECUREBITS: usize = SECBIT_NOROOT
    | SECBIT_NOROOT_LOCKED
    | SECBIT_NO_SETUID_FIXUP
    | SECBIT_NO_SETUID_FIXUP_LOCKED
    | SECBIT_KEEP_CAPS_LOCKED
    | SECBIT_NO_CAP_AMBIENT_RAISE
    | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
const BACKLOG: usize = 128;

pub fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: usize, options: &CStr) -> isize {
    call!(MOUNT, source, target, kind, flags, options)
}

/// Creates a detached, empty tmpfs of at most `size`.
pub fn new_tmpfs(size: &CStr) -> isize {
    let fs = call!(FSOPEN, c"tmpfs", FSOPEN_CLOEXEC);
    if fs < 0 {
        return fs;
    }
    let set = |key: &CStr, value: &CStr| call!(FSCONFIG, fs, FSCONFIG_SET_STRING, key, value);
    let mut result = set(c"size", size);
    if result >= 0 {
        result = set(c"mode", c"755");
    }
    if result >= 0 {
        result = call!(FSCONFIG, fs, FSCONFIG_CMD_CREATE);
    }
    if result >= 0 {
        let attributes = (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) as usize;
        result = call!(FSMOUNT, fs, FSMOUNT_CLOEXEC, attributes);
    }
    super::close(fs as usize);
    result
}

pub fn move_mount(tree: usize, path: &CStr) -> isize {
    call!(MOVE_MOUNT, tree, c"", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH)
}

/// Mounts a detached tree on an open folder or file.
pub fn move_mount_to(tree: usize, target: usize) -> isize {
    call!(MOVE_MOUNT, tree, c"", target, c"", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH)
}

/// Moves the mount at `from`.
pub fn move_from(from: &CStr, to: &CStr) -> isize {
    call!(MOVE_MOUNT, AT_FDCWD, from, AT_FDCWD, to)
}

/// Makes the mount at `path` read-only, but not the mounts below it.
pub fn seal(path: &CStr) -> isize {
    let change = [MOUNT_ATTR_RDONLY, 0, 0, 0];
    call!(MOUNT_SETATTR, AT_FDCWD, path, 0usize, &change, size_of_val(&change))
}

/// An O_PATH descriptor; symbolic links in the path are an error.
pub fn open_path(path: &CStr) -> isize {
    let how = [(O_PATH | O_CLOEXEC) as u64, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS];
    call!(OPENAT2, AT_FDCWD, path, &how, size_of_val(&how))
}

/// The same beneath the working directory.
pub fn open_path_beneath(path: &CStr) -> isize {
    let resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    let how = [(O_PATH | O_CLOEXEC) as u64, 0, resolve];
    call!(OPENAT2, AT_FDCWD, path, &how, size_of_val(&how))
}

/// Device and inode number.
pub fn identity(fd: usize) -> Result<[u64; 2], isize> {
    // The kernel writes a `struct stat`, which begins with these two.
    let mut stat = [0u64; 18];
    let result = call!(FSTAT, fd, &mut stat);
    if result < 0 { Err(result) } else { Ok([stat[0], stat[1]]) }
}

/// An O_PATH descriptor; symbolic links are followed.
pub fn open_path_following(path: &CStr) -> isize {
    call!(OPENAT, AT_FDCWD, path, O_PATH | O_CLOEXEC)
}

pub fn clone_tree(path_fd: usize) -> isize {
    let flags = OPEN_TREE_CLONE | AT_EMPTY_PATH | AT_RECURSIVE | O_CLOEXEC;
    call!(OPEN_TREE, path_fd, c"", flags)
}

pub fn set_mount(mount: usize, attributes: u64, recursive: usize) -> isize {
    let change = [attributes, 0, 0, 0];
    call!(MOUNT_SETATTR, mount, c"", AT_EMPTY_PATH | recursive, &change, size_of_val(&change))
}

/// The current directory becomes the root, with the old root mounted over it.
pub fn pivot_here() -> isize {
    call!(PIVOT_ROOT, c".", c".")
}

pub fn detach_here() -> isize {
    call!(UMOUNT2, c".", MNT_DETACH)
}

pub fn change_dir(path: &CStr) -> isize {
    call!(CHDIR, path)
}

pub fn change_dir_to(fd: usize) -> isize {
    call!(FCHDIR, fd)
}

pub fn make_dir(path: &CStr, mode: usize) -> isize {
    call!(MKDIRAT, AT_FDCWD, path, mode)
}

pub fn symlink(target: &CStr, path: &CStr) -> isize {
    call!(SYMLINKAT, target, AT_FDCWD, path)
}

pub fn create(path: &CStr) -> isize {
    call!(OPENAT, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o444usize)
}

pub fn set_limit(resource: usize, soft: u64, hard: u64) -> isize {
    call!(PRLIMIT64, 0usize, resource, &[soft, hard])
}

pub fn no_new_privileges() -> isize {
    call!(PRCTL, PR_SET_NO_NEW_PRIVS, 1usize)
}

pub fn drop_bounding_capability(capability: usize) -> isize {
    call!(PRCTL, PR_CAPBSET_DROP, capability)
}

pub fn lock_securebits() {
    call!(PRCTL, PR_SET_SECUREBITS, SECUREBITS);
}

pub fn clear_ambient() {
    call!(PRCTL, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
}

pub fn clear_capabilities() -> isize {
    let (header, none) = ([_LINUX_CAPABILITY_VERSION_3, 0], [0u32; 6]);
    call!(CAPSET, &header, &none)
}

/// `attributes` are the handled file rights, the handled network rights and the scopes; the kernel reads
/// `size` bytes of them.
pub fn landlock_create(attributes: &[u64; 3], size: usize) -> isize {
    call!(LANDLOCK_CREATE_RULESET, attributes, size.min(size_of_val(attributes)))
}

pub fn landlock_allow(ruleset: usize, access: u64, path_fd: i32) -> isize {
    #[repr(C, packed)]
    struct PathBeneath {
        access: u64,
        path_fd: i32,
    }
    let beneath = PathBeneath { access, path_fd };
    call!(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath)
}

pub fn landlock_restrict(ruleset: usize) -> isize {
    call!(LANDLOCK_RESTRICT_SELF, ruleset)
}

/// `instructions` are eight bytes each. With the flag for a listener, the result is its descriptor.
pub fn set_filter(instructions: &[u8], flags: usize) -> isize {
    #[repr(C)]
    struct Program {
        length: u16,
        instructions: *const u8,
    }
    let program = Program { length: (instructions.len() / 8) as u16, instructions: instructions.as_ptr() };
    call!(SECCOMP, SECCOMP_SET_MODE_FILTER, flags, &program)
}

pub fn tcp_socket() -> isize {
    call!(SOCKET, AF_INET, SOCK_STREAM | SOCK_CLOEXEC)
}

pub fn loopback_up(socket: usize) -> isize {
    let mut request = [0u8; 40];
    request[..2].copy_from_slice(b"lo");
    request[16..18].copy_from_slice(&(IFF_UP | IFF_RUNNING).to_ne_bytes());
    call!(IOCTL, socket, SIOCSIFFLAGS, &request)
}

pub fn listen_on_loopback(socket: usize, port: u16) -> isize {
    let [high, low] = port.to_be_bytes();
    let address = [AF_INET as u8, 0, high, low, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    match call!(BIND, socket, &address, address.len()) {
        0 => call!(LISTEN, socket, BACKLOG),
        result => result,
    }
}

pub fn send_descriptor(socket: usize, bytes: &[u8], fd: i32) -> isize {
    #[repr(C)]
    struct Control {
        length: usize,
        level: i32,
        kind: i32,
        fd: i32,
        padding: i32,
    }
    let control = Control { length: 20, level: SOL_SOCKET, kind: SCM_RIGHTS, fd, padding: 0 };
    let vector = [bytes.as_ptr().expose_provenance(), bytes.len()];
    let (vector, control) = (&raw const vector, &raw const control);
    // Name, its length, vector, its length, control, its length, flags.
    let message =
        [0, 0, vector.expose_provenance(), 1, control.expose_provenance(), size_of::<Control>(), 0];
    call!(SENDMSG, socket, &message)
}
