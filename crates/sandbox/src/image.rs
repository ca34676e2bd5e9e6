//! The launcher as something executable: in memory, or as a file where memory may not be executed.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::fds::{above_stdio, check};

use toolyard_launcher::IMAGE as LAUNCHER;
/// Not yet in every libc; kernels before 6.3 answer EINVAL to it.
const MFD_EXEC: libc::c_uint = 0x10;

pub struct Image {
    pub path: CString,
    /// Keeps the memory alive that `path` names.
    _memory: Option<File>,
}

impl Image {
    /// A sealed anonymous file: nobody can change what we execute, and nothing is left behind.
    pub fn in_memory() -> io::Result<Image> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let fd = memfd(flags | MFD_EXEC).or_else(|e| match e.raw_os_error() {
            Some(libc::EINVAL) => memfd(flags),
            _ => Err(e),
        })?;
        // SAFETY: just made, ours alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // It is executed by its number, in a child whose low descriptors are already the tool's.
        let mut memory = File::from(above_stdio(fd)?);
        memory.write_all(LAUNCHER)?;
        let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
        // SAFETY: a plain call on our own descriptor.
        check(unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        let path = CString::new(format!("/proc/self/fd/{}", memory.as_raw_fd()))?;
        Ok(Image { path, _memory: Some(memory) })
    }

    /// A file in `directory`, named after its content so that two versions never share one.
    pub fn in_directory(directory: &Path) -> io::Result<Image> {
        let digest = blake3::hash(LAUNCHER).to_hex();
        let path = directory.join(format!("launcher-{}", &digest[..16]));
        let fresh = directory.join(format!("launcher-{}.{}", &digest[..16], std::process::id()));
        // It may be the state folder, which is not there yet and belongs to its owner alone.
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // A leftover of a crashed process with our pid; a link planted there is not followed either.
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
