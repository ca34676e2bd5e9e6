//! The launcher's executable image: a memfd, or a file on systems that refuse to execute a memfd.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::fds::{above_stdio, check};

use toolyard_launcher::IMAGE as LAUNCHER;
/// Not yet in every libc; kernels before 6.3 return EINVAL.
const MFD_EXEC: libc::c_uint = 0x10;

pub struct Image {
    pub path: CString,
    /// Keeps the memfd open that `path` refers to.
    _memory: Option<File>,
}

impl Image {
    /// A sealed memfd: its content cannot be changed, and no file is left behind.
    pub fn in_memory() -> io::Result<Image> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let fd = memfd(flags | MFD_EXEC).or_else(|e| match e.raw_os_error() {
            Some(libc::EINVAL) => memfd(flags),
            _ => Err(e),
        })?;
        // SAFETY: just created, with no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // It is executed by its number in a child whose low descriptors are already replaced.
        let mut memory = File::from(above_stdio(fd)?);
        memory.write_all(LAUNCHER)?;
        let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
        // SAFETY: a plain call on our own descriptor.
        check(unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        let path = CString::new(format!("/proc/self/fd/{}", memory.as_raw_fd()))?;
        Ok(Image { path, _memory: Some(memory) })
    }

    /// A file in `directory`, named by its content hash so that versions do not collide.
    pub fn in_directory(directory: &Path) -> io::Result<Image> {
        let digest = blake3::hash(LAUNCHER).to_hex();
        let path = directory.join(format!("launcher-{}", &digest[..16]));
        let fresh = directory.join(format!("launcher-{}.{}", &digest[..16], std::process::id()));
        // This may be the state folder, which must be private to its owner.
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // Left by a crashed process with the same pid; also keeps a planted symlink from being followed.
        match fs::remove_file(&fresh) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&fresh)?;
        file.write_all(LAUNCHER)?;
        drop(file);
        fs::rename(&fresh, &path)?;
        Ok(Image { path: CString::new(path.as_os_str().as_bytes())?, _memory: None })
    }
}

fn memfd(flags: libc::c_uint) -> io::Result<libc::c_int> {
    // SAFETY: the name is a NUL-terminated literal.
    check(unsafe { libc::memfd_create(c"toolyard-launcher".as_ptr(), flags) })
}
