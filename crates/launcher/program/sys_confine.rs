//! The system calls for the sandbox: mounts, limits, capabilities, Landlock, seccomp. Paths end in NUL.

use super::arch::{call, nr};
use super::{AT_FDCWD, O_CLOEXEC, O_WRONLY};

pub const MS_RDONLY: usize = 1;
pub const MS_NOSUID: usize = 2;
pub const MS_NODEV: usize = 4;
pub const MS_NOEXEC: usize = 8;
pub const MS_REC: usize = 0x4000;
pub const MS_PRIVATE: usize = 0x4_0000;
pub const MOUNT_RDONLY: u64 = 1;
pub const MOUNT_NOSUID: u64 = 2;
pub const MOUNT_NODEV: u64 = 4;
pub const AT_RECURSIVE: usize = 0x8000;
pub const EEXIST: isize = 17;

const AT_EMPTY_PATH: usize = 0x1000;
const MNT_DETACH: usize = 2;
const O_CREAT: usize = 0o100;
const O_EXCL: usize = 0o200;
const O_PATH: usize = 0o10_000_000;
const RESOLVE_NO_MAGICLINKS: u64 = 2;
const RESOLVE_NO_SYMLINKS: u64 = 4;
const OPEN_TREE_CLONE: usize = 1;
const MOVE_MOUNT_F_EMPTY_PATH: usize = 4;
const FSOPEN_CLOEXEC: usize = 1;
const FSMOUNT_CLOEXEC: usize = 1;
const FSCONFIG_SET_STRING: usize = 1;
const FSCONFIG_CMD_CREATE: usize = 6;
const PR_CAPBSET_DROP: usize = 24;
const PR_SET_SECUREBITS: usize = 28;
const PR_SET_NO_NEW_PRIVS: usize = 38;
const PR_CAP_AMBIENT: usize = 47;
const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;
/// NOROOT, NO_SETUID_FIXUP, KEEP_CAPS off, NO_CAP_AMBIENT_RAISE, each with its lock.
const SECUREBITS: usize = 0b1110_1111;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
const LANDLOCK_RULE_PATH_BENEATH: usize = 1;
const SECCOMP_SET_MODE_FILTER: usize = 1;
const AF_INET: usize = 2;
const SOCK_STREAM: usize = 1;
const SOCK_CLOEXEC: usize = O_CLOEXEC;
const SIOCSIFFLAGS: usize = 0x8914;
const IFF_UP_RUNNING: u16 = 0x41;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const BACKLOG: usize = 128;

pub fn mount(source: &[u8], target: &[u8], kind: &[u8], flags: usize, options: &[u8]) -> isize {
    let [source, target, kind, options] = [source, target, kind, options].map(|text| text.as_ptr() as usize);
    unsafe { call(nr::MOUNT, [source, target, kind, flags, options, 0]) }
}

/// Creates a detached, empty tmpfs of at most `size`.
pub fn new_tmpfs(size: &[u8]) -> isize {
    unsafe {
        let fs = call(nr::FSOPEN, [b"tmpfs\0".as_ptr() as usize, FSOPEN_CLOEXEC, 0, 0, 0, 0]);
        if fs < 0 {
            return fs;
        }
        let set = |key: &[u8], value: &[u8]| {
            let (key, value) = (key.as_ptr() as usize, value.as_ptr() as usize);
            call(nr::FSCONFIG, [fs as usize, FSCONFIG_SET_STRING, key, value, 0, 0])
        };
        let mut result = set(b"size\0", size);
        if result >= 0 {
            result = set(b"mode\0", b"755\0");
        }
        if result >= 0 {
            result = call(nr::FSCONFIG, [fs as usize, FSCONFIG_CMD_CREATE, 0, 0, 0, 0]);
        }
        if result >= 0 {
            let attributes = (MOUNT_NOSUID | MOUNT_NODEV) as usize;
            result = call(nr::FSMOUNT, [fs as usize, FSMOUNT_CLOEXEC, attributes, 0, 0, 0]);
        }
        super::close(fs as usize);
        result
    }
}

pub fn move_mount(tree: usize, path: &[u8]) -> isize {
    let empty = b"\0".as_ptr() as usize;
    let path = path.as_ptr() as usize;
    unsafe { call(nr::MOVE_MOUNT, [tree, empty, AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH, 0]) }
}

/// Moves the mount at `from`.
pub fn move_from(from: &[u8], to: &[u8]) -> isize {
    unsafe { call(nr::MOVE_MOUNT, [AT_FDCWD, from.as_ptr() as usize, AT_FDCWD, to.as_ptr() as usize, 0, 0]) }
}

/// Makes the mount at `path` read-only, but not the mounts below it.
pub fn seal(path: &[u8]) -> isize {
    let change = [MOUNT_RDONLY, 0, 0, 0];
    let (path, change) = (path.as_ptr() as usize, change.as_ptr() as usize);
    unsafe { call(nr::MOUNT_SETATTR, [AT_FDCWD, path, 0, change, 32, 0]) }
}

/// An O_PATH descriptor; symbolic links in the path are an error.
pub fn open_path(path: &[u8]) -> isize {
    let how = [(O_PATH | O_CLOEXEC) as u64, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS];
    let (path, how) = (path.as_ptr() as usize, how.as_ptr() as usize);
    unsafe { call(nr::OPENAT2, [AT_FDCWD, path, how, 24, 0, 0]) }
}

/// An O_PATH descriptor of the caller's `/proc` entry.
pub fn open_proc_self() -> isize {
    let path = b"/proc/self\0".as_ptr() as usize;
    unsafe { call(nr::OPENAT, [AT_FDCWD, path, O_PATH | O_CLOEXEC, 0, 0, 0]) }
}

pub fn clone_tree(path_fd: usize) -> isize {
    let flags = OPEN_TREE_CLONE | AT_EMPTY_PATH | AT_RECURSIVE | O_CLOEXEC;
    unsafe { call(nr::OPEN_TREE, [path_fd, b"\0".as_ptr() as usize, flags, 0, 0, 0]) }
}

pub fn set_mount(mount: usize, attributes: u64, recursive: usize) -> isize {
    let change = [attributes, 0, 0, 0];
    let (empty, change) = (b"\0".as_ptr() as usize, change.as_ptr() as usize);
    unsafe { call(nr::MOUNT_SETATTR, [mount, empty, AT_EMPTY_PATH | recursive, change, 32, 0]) }
}

/// The current directory becomes the root, with the old root mounted over it.
pub fn pivot_here() -> isize {
    let here = b".\0".as_ptr() as usize;
    unsafe { call(nr::PIVOT_ROOT, [here, here, 0, 0, 0, 0]) }
}

pub fn detach_here() -> isize {
    unsafe { call(nr::UMOUNT2, [b".\0".as_ptr() as usize, MNT_DETACH, 0, 0, 0, 0]) }
}

pub fn change_dir(path: &[u8]) -> isize {
    unsafe { call(nr::CHDIR, [path.as_ptr() as usize, 0, 0, 0, 0, 0]) }
}

pub fn change_dir_to(fd: usize) -> isize {
    unsafe { call(nr::FCHDIR, [fd, 0, 0, 0, 0, 0]) }
}

pub fn make_dir(path: &[u8], mode: usize) -> isize {
    unsafe { call(nr::MKDIRAT, [AT_FDCWD, path.as_ptr() as usize, mode, 0, 0, 0]) }
}

pub fn symlink(target: &[u8], path: &[u8]) -> isize {
    unsafe { call(nr::SYMLINKAT, [target.as_ptr() as usize, AT_FDCWD, path.as_ptr() as usize, 0, 0, 0]) }
}

pub fn create(path: &[u8]) -> isize {
    let flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    unsafe { call(nr::OPENAT, [AT_FDCWD, path.as_ptr() as usize, flags, 0o444, 0, 0]) }
}

pub fn set_limit(resource: usize, soft: u64, hard: u64) -> isize {
    let limit = [soft, hard];
    unsafe { call(nr::PRLIMIT64, [0, resource, limit.as_ptr() as usize, 0, 0, 0]) }
}

pub fn no_new_privileges() -> isize {
    unsafe { call(nr::PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]) }
}

pub fn drop_bounding_capability(capability: usize) -> isize {
    unsafe { call(nr::PRCTL, [PR_CAPBSET_DROP, capability, 0, 0, 0, 0]) }
}

/// From here on uid 0 has no special privileges.
pub fn lock_securebits() {
    unsafe { call(nr::PRCTL, [PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0, 0]) };
}

pub fn clear_ambient() {
    unsafe { call(nr::PRCTL, [PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0]) };
}

pub fn clear_capabilities() -> isize {
    let (header, none) = ([CAPABILITY_VERSION_3, 0], [0u32; 6]);
    unsafe { call(nr::CAPSET, [header.as_ptr() as usize, none.as_ptr() as usize, 0, 0, 0, 0]) }
}

/// `attributes` are the handled file rights, the handled network rights and the scopes.
pub fn landlock_create(attributes: &[u64; 3], size: usize) -> isize {
    unsafe { call(nr::LANDLOCK_CREATE_RULESET, [attributes.as_ptr() as usize, size, 0, 0, 0, 0]) }
}

pub fn landlock_allow(ruleset: usize, access: u64, path_fd: i32) -> isize {
    #[repr(C, packed)]
    struct PathBeneath {
        access: u64,
        path_fd: i32,
    }
    let beneath = PathBeneath { access, path_fd };
    let beneath = &raw const beneath as usize;
    unsafe { call(nr::LANDLOCK_ADD_RULE, [ruleset, LANDLOCK_RULE_PATH_BENEATH, beneath, 0, 0, 0]) }
}

pub fn landlock_restrict(ruleset: usize) -> isize {
    unsafe { call(nr::LANDLOCK_RESTRICT_SELF, [ruleset, 0, 0, 0, 0, 0]) }
}

/// `instructions` are eight bytes each.
pub fn set_filter(instructions: &[u8]) -> isize {
    #[repr(C)]
    struct Program {
        length: u16,
        instructions: *const u8,
    }
    let program = Program { length: (instructions.len() / 8) as u16, instructions: instructions.as_ptr() };
    unsafe { call(nr::SECCOMP, [SECCOMP_SET_MODE_FILTER, 0, &raw const program as usize, 0, 0, 0]) }
}

pub fn tcp_socket() -> isize {
    unsafe { call(nr::SOCKET, [AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0, 0, 0]) }
}

pub fn loopback_up(socket: usize) -> isize {
    let mut request = [0u8; 40];
    request[..2].copy_from_slice(b"lo");
    request[16..18].copy_from_slice(&IFF_UP_RUNNING.to_ne_bytes());
    unsafe { call(nr::IOCTL, [socket, SIOCSIFFLAGS, request.as_ptr() as usize, 0, 0, 0]) }
}

pub fn listen_on_loopback(socket: usize, port: u16) -> isize {
    let [high, low] = port.to_be_bytes();
    let address = [AF_INET as u8, 0, high, low, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    unsafe {
        match call(nr::BIND, [socket, address.as_ptr() as usize, address.len(), 0, 0, 0]) {
            0 => call(nr::LISTEN, [socket, BACKLOG, 0, 0, 0, 0]),
            result => result,
        }
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
    let vector = [bytes.as_ptr() as usize, bytes.len()];
    // Name, its length, vector, its length, control, its length, flags.
    let message = [0, 0, vector.as_ptr() as usize, 1, &raw const control as usize, size_of::<Control>(), 0];
    unsafe { call(nr::SENDMSG, [socket, message.as_ptr() as usize, 0, 0, 0, 0]) }
}
