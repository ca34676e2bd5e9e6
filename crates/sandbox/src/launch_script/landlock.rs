//! Landlock rules: a second barrier inside namespaces, the only one without them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::mounts::{Access, Mount};
use super::system::SystemView;
use super::{LaunchScript, Step, confinement_error};
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

    fn tcp_rights(self) -> u64 {
        if self.0 >= 4 { BIND_AND_CONNECT_TCP } else { 0 }
    }

    fn scopes(self) -> u64 {
        if self.0 >= 6 { ABSTRACT_SOCKETS_AND_SIGNALS } else { 0 }
    }

    /// How much of the three attributes the kernel knows, in bytes.
    fn attributes_size(self) -> u32 {
        match self.0 {
            ..4 => 8,
            4 | 5 => 16,
            _ => 24,
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
    let is_shared = confinement.level != SandboxLevel::Full;
    let net = if is_shared && confinement.network == Network::Deny { abi.tcp_rights() } else { 0 };
    let (size, fs, scoped) = (abi.attributes_size(), abi.handled_rights(), abi.scopes());
    script.push(Step::Ruleset { size, fs, net, scoped });
    let mut rules = Rules { script, handled: abi.handled_rights() };
    match confinement.level {
        SandboxLevel::Full => rules.inside_namespaces(mounts),
        _ => rules.without_namespaces(confinement, system, mounts)?,
    }
    script.push(Step::Restrict {});
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
        // The view contains only harmless device nodes and the tool's own terminals, which need ioctl.
        self.grant(Path::new("/dev"), READ_FILE | WRITE_FILE | IOCTL_DEV, true);
        for mount in mounts.iter().filter(|mount| mount.access == Access::Write) {
            self.grant_mount(mount, self.write_rights());
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
        // A link to the entry of the tool's own process.
        let own = b"/proc/self";
        self.script.push(Step::Rule {
            access: READ_FILE | READ_DIR,
            follow: 1,
            device: 0,
            inode: 0,
            path: own,
        });
        let hidden = |mount: &&Mount| mount.access == Access::Hidden;
        let hidden: Vec<PathBuf> = mounts.iter().filter(hidden).map(|mount| mount.path.clone()).collect();
        let mut left = MAX_SIBLINGS;
        for mount in mounts.iter().filter(|mount| mount.access != Access::Hidden) {
            let access = if mount.access == Access::Write { self.write_rights() } else { READ_EXECUTE };
            // A path granted inside a hidden folder stays granted.
            let inside: Vec<&PathBuf> = hidden.iter().filter(|path| path.starts_with(&mount.path)).collect();
            if inside.is_empty() {
                self.grant_mount(mount, access);
            } else {
                self.grant_except_hidden(&mount.path, access, mount.is_dir, &inside, &mut left)?;
            }
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
        self.rule(path, access, is_dir, (0, 0));
    }

    fn grant_mount(&mut self, mount: &Mount, access: u64) {
        self.rule(&mount.path, access, mount.is_dir, mount.checked());
    }

    fn rule(&mut self, path: &Path, access: u64, is_dir: bool, (device, inode): (u64, u64)) {
        let access = access & self.handled & if is_dir { u64::MAX } else { FILE_RIGHTS };
        let path = path.as_os_str().as_bytes();
        self.script.push(Step::Rule { access, follow: 0, device, inode, path });
    }
}

#[cfg(test)]
mod tests {
    use landlock::{ABI, Access, AccessFs, AccessNet, Scope};

    use super::*;

    const ABIS: [ABI; 9] = [ABI::V1, ABI::V2, ABI::V3, ABI::V4, ABI::V5, ABI::V6, ABI::V7, ABI::V8, ABI::V9];

    /// The crate `landlock` is kept by the kernel's maintainers of Landlock.
    #[test]
    fn rights_of_every_abi_are_those_of_the_landlock_crate() {
        for theirs in ABIS {
            let abi = Abi(theirs as i64);
            // Connecting to a UNIX socket by its path (ABI 9) is not handled: without a mount namespace the
            // seccomp filter denies UNIX sockets, and with one only sockets in the view can be reached.
            let fs = AccessFs::from_all(theirs).bits() & !(AccessFs::ResolveUnix as u64);
            assert_eq!(abi.handled_rights(), fs, "{theirs:?}");
            assert_eq!(abi.tcp_rights(), AccessNet::from_all(theirs).bits(), "{theirs:?}");
            assert_eq!(abi.scopes(), Scope::from_all(theirs).bits(), "{theirs:?}");
            // The kernel refuses attributes that it does not know, and ignores those that it is not told of.
            let known = [fs, abi.tcp_rights(), abi.scopes()].iter().filter(|rights| **rights != 0).count();
            assert_eq!(abi.attributes_size() as usize, known * 8, "{theirs:?}");
        }
        let newer = Abi(ABI::V9 as i64 + 1);
        assert_eq!(
            newer.handled_rights(),
            Abi(9).handled_rights(),
            "an unknown ABI is used like the last known"
        );
    }

    #[test]
    fn each_right_has_the_bit_of_the_landlock_crate() {
        for (ours, theirs) in [
            (EXECUTE, AccessFs::Execute),
            (WRITE_FILE, AccessFs::WriteFile),
            (READ_FILE, AccessFs::ReadFile),
            (READ_DIR, AccessFs::ReadDir),
            (MAKE_CHAR, AccessFs::MakeChar),
            (MAKE_BLOCK, AccessFs::MakeBlock),
            (REFER, AccessFs::Refer),
            (TRUNCATE, AccessFs::Truncate),
            (IOCTL_DEV, AccessFs::IoctlDev),
        ] {
            assert_eq!(ours, theirs as u64, "{theirs:?}");
        }
        assert_eq!(READ_EXECUTE, AccessFs::from_read(ABI::V8).bits());
        assert_eq!(FILE_RIGHTS, AccessFs::from_file(ABI::V8).bits());
    }
}
