//! Landlock rules: a second barrier inside namespaces, the only one without them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::mounts::{Access, Mount};
use super::system::SystemView;
use super::{LaunchScript, confinement_error, op};
use crate::{ChildError, Confinement, Network, SandboxLevel};

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
const BIND_AND_CONNECT_TCP: u64 = 3;
const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 3;

const READ_EXECUTE: u64 = EXECUTE | READ_FILE | READ_DIR;
const FILE_RIGHTS: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
/// Entries of `/proc` about the machine, not about other processes.
const PROC: [&str; 9] = [
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/kernel",
    "/proc/sys/vm",
];
/// Maximum number of siblings of hidden paths, which are granted one by one.
const MAX_SIBLINGS: usize = 2000;

/// The Landlock ABI version of this kernel; 0 if it has no Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Abi(pub i64);

impl Abi {
    pub fn detect() -> Abi {
        const VERSION: libc::c_int = 1;
        let nothing = std::ptr::null::<u8>();
        // SAFETY: with this flag the call only returns the version.
        Abi(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0usize, VERSION) }.max(0))
    }

    fn handled_rights(self) -> u64 {
        match self.0 {
            1 => REFER - 1,
            2 => TRUNCATE - 1,
            3 | 4 => IOCTL_DEV - 1,
            _ => (IOCTL_DEV << 1) - 1,
        }
    }
}

pub fn write(
    script: &mut LaunchScript,
    confinement: &Confinement,
    system: &SystemView,
    mounts: &[Mount],
) -> Result<(), ChildError> {
    let abi = system.abi;
    if abi.0 == 0 {
        return match confinement.level {
            // Inside namespaces Landlock is an additional barrier only.
            SandboxLevel::Full => Ok(()),
            _ => Err(confinement_error("this kernel has no Landlock", libc::EOPNOTSUPP)),
        };
    }
    let tcp = if confinement.network == Network::Deny && abi.0 >= 4 { BIND_AND_CONNECT_TCP } else { 0 };
    let scoped = if abi.0 >= 6 { ABSTRACT_SOCKETS_AND_SIGNALS } else { 0 };
    let size = match abi.0 {
        ..4 => 8,
        4 | 5 => 16,
        _ => 24,
    };
    script.step(op::RULESET).number(size).long(abi.handled_rights()).long(tcp).long(scoped);
    let mut rules = Rules { script, handled: abi.handled_rights() };
    match confinement.level {
        SandboxLevel::Full => rules.inside_namespaces(mounts),
        _ => rules.without_namespaces(confinement, system, mounts)?,
    }
    script.step(op::RESTRICT);
    Ok(())
}

struct Rules<'a> {
    script: &'a mut LaunchScript,
    handled: u64,
}

impl Rules<'_> {
    /// Everything visible may be read; the mounts say what is visible.
    fn inside_namespaces(&mut self, mounts: &[Mount]) {
        self.grant(Path::new("/"), READ_EXECUTE, true);
        self.grant(Path::new("/tmp"), self.write_rights(), true);
        // The view contains only these device nodes.
        self.grant(Path::new("/dev"), READ_FILE | WRITE_FILE, true);
        for mount in mounts.iter().filter(|mount| mount.access == Access::Write) {
            self.grant(&mount.path, self.write_rights(), mount.is_dir);
        }
    }

    fn without_namespaces(
        &mut self,
        confinement: &Confinement,
        system: &SystemView,
        mounts: &[Mount],
    ) -> Result<(), ChildError> {
        let resolver = if confinement.network == Network::Allow { &system.resolver[..] } else { &[] };
        for mount in system.visible.iter().chain(resolver) {
            self.grant(&mount.path, READ_EXECUTE, mount.is_dir);
        }
        for copied in &system.copies {
            self.grant(&copied.canonical_path, READ_EXECUTE, false);
        }
        self.devices(system);
        for path in PROC.into_iter().map(Path::new).filter(|path| path.exists()) {
            self.grant(path, READ_FILE | READ_DIR, path.is_dir());
        }
        self.script.step(op::RULE_SELF).long(READ_FILE | READ_DIR);
        let hidden = |mount: &&Mount| mount.access == Access::Hidden;
        let hidden: Vec<PathBuf> = mounts.iter().filter(hidden).map(|mount| mount.path.clone()).collect();
        let mut left = MAX_SIBLINGS;
        for mount in mounts.iter().filter(|mount| mount.access != Access::Hidden) {
            let access = if mount.access == Access::Write { self.write_rights() } else { READ_EXECUTE };
            // A path granted inside a hidden folder stays granted.
            let inside: Vec<&PathBuf> = hidden.iter().filter(|path| path.starts_with(&mount.path)).collect();
            self.grant_except_hidden(&mount.path, access, mount.is_dir, &inside, &mut left)?;
        }
        Ok(())
    }

    /// Landlock rules apply to everything below a path, so a folder that contains a hidden path is granted
    /// entry by entry. Names stay listable, also in the hidden part: Python needs them to import modules, and
    /// without a mount namespace the existence of a name cannot be hidden anyway.
    fn grant_except_hidden(
        &mut self,
        path: &Path,
        access: u64,
        is_dir: bool,
        hidden: &[&PathBuf],
        left: &mut usize,
    ) -> Result<(), ChildError> {
        if hidden.iter().any(|hidden| *hidden == path) {
            return Ok(());
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
            self.grant(path, access, is_dir);
            return Ok(());
        }
        self.grant(path, READ_DIR, true);
        let failed = |source| ChildError::Confinement { step: format!("list {}", path.display()), source };
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            *left = left.checked_sub(1).ok_or_else(|| {
                confinement_error(
                    format!("too many entries beside hidden paths in {}", path.display()),
                    libc::E2BIG,
                )
            })?;
            let kind = entry.file_type().map_err(failed)?;
            if !kind.is_symlink() {
                self.grant_except_hidden(&entry.path(), access, kind.is_dir(), hidden, left)?;
            }
        }
        Ok(())
    }

    fn devices(&mut self, system: &SystemView) {
        for path in &system.devices {
            self.grant(path, READ_FILE | WRITE_FILE, false);
        }
    }

    /// All handled rights except creating devices.
    fn write_rights(&self) -> u64 {
        self.handled & !(MAKE_CHAR | MAKE_BLOCK)
    }

    fn grant(&mut self, path: &Path, access: u64, is_dir: bool) {
        let access = access & self.handled & if is_dir { u64::MAX } else { FILE_RIGHTS };
        self.script.step(op::RULE).long(access).text(path.as_os_str().as_bytes());
    }
}
