//! The launcher's executable image: a memfd, or a file on systems that refuse to execute a memfd.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use toolyard_launcher::IMAGE as LAUNCHER;

use super::fds::above_stdio;

pub struct Image {
    pub path: CString,
    /// Keeps the memfd open that `path` refers to.
    _memory: Option<File>,
}

impl Image {
    /// A sealed memfd: its content cannot be changed, and no file is left behind.
    pub fn in_memory() -> io::Result<Image> {
        let memfd = |flags| memfd_create(c"toolyard-launcher", flags);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know the flag.
        let fd = match memfd(flags | MemfdFlags::EXEC) {
            Err(Errno::INVAL) => memfd(flags),
            created => created,
        }?;
        // It is executed by its number in a child whose low descriptors are already replaced.
        let mut memory = File::from(above_stdio(fd)?);
        memory.write_all(LAUNCHER)?;
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        fcntl_add_seals(&memory, seals)?;
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
