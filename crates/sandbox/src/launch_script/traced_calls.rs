//! The system calls that a traced run reports: those with a path or an address.

use super::seccomp;
use crate::TracedAccess;

/// Where a call has a path.
#[derive(Clone, Copy)]
pub struct PathArgument {
    pub path: usize,
    /// The folder that a relative path begins at; the working directory if there is none.
    pub folder: Option<usize>,
    pub access: TracedAccess,
    /// The flags of an open, which decide whether it writes; with `has_structure`, behind a pointer.
    pub flags: Option<usize>,
    pub has_structure: bool,
}

pub enum TracedCall {
    Paths(&'static [PathArgument]),
    Connect,
    SendTo,
    SendMany,
}

const fn plain(path: usize, access: TracedAccess) -> PathArgument {
    PathArgument { path, folder: None, access, flags: None, has_structure: false }
}

const fn at(folder: usize, path: usize, access: TracedAccess) -> PathArgument {
    PathArgument { path, folder: Some(folder), access, flags: None, has_structure: false }
}

const fn open(path: PathArgument, flags: usize, has_structure: bool) -> PathArgument {
    PathArgument { flags: Some(flags), has_structure, ..path }
}

use TracedAccess::{Execute, Look, Read, Write};

const CALLS: &[(i64, &[PathArgument])] = &[
    (libc::SYS_openat, &[open(at(0, 1, Read), 2, false)]),
    (libc::SYS_openat2, &[open(at(0, 1, Read), 2, true)]),
    (libc::SYS_execve, &[plain(0, Execute)]),
    (libc::SYS_execveat, &[at(0, 1, Execute)]),
    (libc::SYS_chdir, &[plain(0, Look)]),
    (libc::SYS_newfstatat, &[at(0, 1, Look)]),
    (libc::SYS_statx, &[at(0, 1, Look)]),
    (libc::SYS_faccessat, &[at(0, 1, Look)]),
    (libc::SYS_faccessat2, &[at(0, 1, Look)]),
    (libc::SYS_readlinkat, &[at(0, 1, Look)]),
    (libc::SYS_mkdirat, &[at(0, 1, Write)]),
    (libc::SYS_mknodat, &[at(0, 1, Write)]),
    (libc::SYS_unlinkat, &[at(0, 1, Write)]),
    (libc::SYS_renameat2, &[at(0, 1, Write), at(2, 3, Write)]),
    (libc::SYS_linkat, &[at(0, 1, Read), at(2, 3, Write)]),
    (libc::SYS_symlinkat, &[at(1, 2, Write)]),
    (libc::SYS_fchmodat, &[at(0, 1, Write)]),
    (libc::SYS_fchownat, &[at(0, 1, Write)]),
    (libc::SYS_utimensat, &[at(0, 1, Write)]),
    (libc::SYS_truncate, &[plain(0, Write)]),
];

/// Older calls, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const CALLS_OF_ARCH: &[(i64, &[PathArgument])] = &[
    (libc::SYS_open, &[open(plain(0, Read), 1, false)]),
    (libc::SYS_creat, &[plain(0, Write)]),
    (libc::SYS_stat, &[plain(0, Look)]),
    (libc::SYS_lstat, &[plain(0, Look)]),
    (libc::SYS_access, &[plain(0, Look)]),
    (libc::SYS_readlink, &[plain(0, Look)]),
    (libc::SYS_mkdir, &[plain(0, Write)]),
    (libc::SYS_mknod, &[plain(0, Write)]),
    (libc::SYS_rmdir, &[plain(0, Write)]),
    (libc::SYS_unlink, &[plain(0, Write)]),
    (libc::SYS_rename, &[plain(0, Write), plain(1, Write)]),
    (libc::SYS_renameat, &[at(0, 1, Write), at(2, 3, Write)]),
    (libc::SYS_link, &[plain(0, Read), plain(1, Write)]),
    (libc::SYS_symlink, &[plain(1, Write)]),
    (libc::SYS_chmod, &[plain(0, Write)]),
    (libc::SYS_chown, &[plain(0, Write)]),
    (libc::SYS_lchown, &[plain(0, Write)]),
    (libc::SYS_utime, &[plain(0, Write)]),
    (libc::SYS_utimes, &[plain(0, Write)]),
];
#[cfg(target_arch = "aarch64")]
const CALLS_OF_ARCH: &[(i64, &[PathArgument])] = &[(libc::SYS_renameat, &[at(0, 1, Write), at(2, 3, Write)])];

/// What a reported call has; `None` if it is not reported.
pub fn traced_call(number: i64) -> Option<TracedCall> {
    Some(match number {
        libc::SYS_connect => TracedCall::Connect,
        libc::SYS_sendto => TracedCall::SendTo,
        libc::SYS_sendmmsg => TracedCall::SendMany,
        _ => {
            let mut calls = CALLS.iter().chain(CALLS_OF_ARCH);
            TracedCall::Paths(calls.find(|(call, _)| *call == number)?.1)
        }
    })
}

/// The filter that reports them.
pub fn filter() -> Vec<u8> {
    let calls = CALLS.iter().chain(CALLS_OF_ARCH).map(|(call, _)| *call);
    seccomp::reporting_program(calls.chain([libc::SYS_connect, libc::SYS_sendto, libc::SYS_sendmmsg]))
}
