//! Landlock rules: a second barrier inside namespaces, the only one without them.

use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
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
/// Connecting to a UNIX socket by its path.
const RESOLVE_UNIX: u64 = 1 << 16;
const BIND_AND_CONNECT_TCP: u64 = 3;
const ABSTRACT_SOCKETS: u64 = 1;
const SIGNALS: u64 = 2;

const READ_EXECUTE: u64 = EXECUTE | READ_FILE | READ_DIR;
const FILE_RIGHTS: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV | RESOLVE_UNIX;
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

/// The Landlock rights that this kernel knows. Each was asked for by itself: distributions add some to kernels whose
/// ABI version does not have them, and leave others out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Landlock {
    fs: u64,
    net: u64,
    scoped: u64,
}

impl Landlock {
    pub fn detect() -> Landlock {
        let known = |attributes: fn(u64) -> [u64; 3], rights: u64| {
            let bits = (0..u64::BITS).map(|bit| 1 << bit).filter(|right| rights & right != 0);
            bits.filter(|right| is_known(&attributes(*right))).sum()
        };
        let newest = Landlock::of_abi(u32::MAX);
        Landlock {
            fs: known(|right| [right, 0, 0], newest.fs),
            net: known(|right| [0, right, 0], newest.net),
            scoped: known(|right| [0, 0, right], newest.scoped),
        }
    }

    /// The rights of an ABI version, 0 for none.
    pub fn of_abi(abi: u32) -> Landlock {
        let fs = match abi {
            0 => 0,
            1 => REFER - 1,
            2 => TRUNCATE - 1,
            3 | 4 => IOCTL_DEV - 1,
            5..9 => RESOLVE_UNIX - 1,
            9.. => (RESOLVE_UNIX << 1) - 1,
        };
        let net = if abi >= 4 { BIND_AND_CONNECT_TCP } else { 0 };
        Landlock { fs, net, scoped: if abi >= 6 { ABSTRACT_SOCKETS | SIGNALS } else { 0 } }
    }

    /// What both have.
    pub fn and(self, other: Landlock) -> Landlock {
        let Landlock { fs, net, scoped } = self;
        Landlock { fs: fs & other.fs, net: net & other.net, scoped: scoped & other.scoped }
    }

    /// Whether it can keep a program from the files that it was not granted.
    pub fn protects_files(self) -> bool {
        let needed = Landlock::of_abi(1).fs;
        self.fs & needed == needed
    }

    pub fn has_truncate(self) -> bool {
        self.fs & TRUNCATE != 0
    }

    pub fn isolates_abstract_sockets(self) -> bool {
        self.scoped & ABSTRACT_SOCKETS != 0
    }

    pub fn isolates_signals(self) -> bool {
        self.scoped & SIGNALS != 0
    }
}

/// How much of the attributes is used, in bytes: the kernel refuses more than it knows.
fn attributes_size(attributes: &[u64; 3]) -> u32 {
    let used = attributes.iter().rposition(|rights| *rights != 0).map_or(0, |last| last + 1);
    (used.max(1) * 8) as u32
}

/// Whether the kernel creates a rule set that handles these rights.
fn is_known(attributes: &[u64; 3]) -> bool {
    let size = attributes_size(attributes) as usize;
    // SAFETY: the kernel reads `size` bytes of the attributes.
    let fd = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, attributes.as_ptr(), size, 0) };
    if fd >= 0 {
        // SAFETY: just created, and used by nothing else.
        drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
    }
    fd >= 0
}

pub fn write(
    script: &mut LaunchScript,
    confinement: &Confinement,
    system: &SystemView,
    mounts: &[Mount],
) -> Result<(), ChildError> {
    let landlock = system.landlock;
    if !landlock.protects_files() {
        return match confinement.level {
            // Inside namespaces Landlock is an additional barrier only.
            SandboxLevel::Full => Ok(()),
            _ => Err(confinement_error("this kernel has no Landlock", libc::EOPNOTSUPP)),
        };
    }
    // In a network namespace of its own, a program reaches only itself.
    let is_shared = confinement.level != SandboxLevel::Full;
    let net = if is_shared && confinement.network == Network::Deny { landlock.net } else { 0 };
    let (fs, scoped) = (landlock.fs, landlock.scoped);
    script.push(Step::Ruleset { size: attributes_size(&[fs, net, scoped]), fs, net, scoped });
    let mut rules = Rules { script, handled: fs };
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
            let ours = Landlock::of_abi(theirs as u32);
            assert_eq!(ours.fs, AccessFs::from_all(theirs).bits(), "{theirs:?}");
            assert_eq!(ours.net, AccessNet::from_all(theirs).bits(), "{theirs:?}");
            assert_eq!(ours.scoped, Scope::from_all(theirs).bits(), "{theirs:?}");
        }
        assert_eq!(Landlock::of_abi(10), Landlock::of_abi(9), "an unknown ABI is used like the last known");
        assert!(!Landlock::of_abi(0).protects_files() && Landlock::of_abi(1).protects_files());
    }

    /// The rights found one by one are those of the version that the kernel says it has.
    #[test]
    fn the_rights_of_this_kernel_are_found() {
        // SAFETY: with this flag the call only returns the version.
        let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, 1) };
        assert_eq!(Landlock::detect(), Landlock::of_abi(abi.max(0) as u32), "ABI {abi}");
    }

    #[test]
    fn the_kernel_is_told_no_more_attributes_than_are_used() {
        for (attributes, size) in [([1, 0, 0], 8), ([1, 1, 0], 16), ([1, 0, 1], 24), ([0, 0, 0], 8)] {
            assert_eq!(attributes_size(&attributes), size);
        }
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
            (RESOLVE_UNIX, AccessFs::ResolveUnix),
        ] {
            assert_eq!(ours, theirs as u64, "{theirs:?}");
        }
        assert_eq!(READ_EXECUTE, AccessFs::from_read(ABI::V8).bits());
        assert_eq!(FILE_RIGHTS, AccessFs::from_file(ABI::V9).bits());
    }
}
