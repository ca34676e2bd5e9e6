//! Landlock rules: the same view once more inside namespaces, the only one without them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::place::{Access, Place};
use super::system::System;
use super::{Plan, op, refused};
use crate::child::{ChildError, Confinement, Level, Network};

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

const LOOK: u64 = EXECUTE | READ_FILE | READ_DIR;
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
/// What of `/proc` is about the machine and not about other processes.
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
/// Siblings of a hidden place that are granted one by one.
const MAX_SIBLINGS: usize = 2000;

/// The version of Landlock this kernel has; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Abi(pub i64);

impl Abi {
    pub fn of_this_kernel() -> Abi {
        const VERSION: libc::c_int = 1;
        let nothing = std::ptr::null::<u8>();
        // SAFETY: with this flag the call only tells its version.
        Abi(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0usize, VERSION) }.max(0))
    }

    fn files(self) -> u64 {
        match self.0 {
            1 => REFER - 1,
            2 => TRUNCATE - 1,
            3 | 4 => IOCTL_DEV - 1,
            _ => (IOCTL_DEV << 1) - 1,
        }
    }
}

pub fn write(
    plan: &mut Plan,
    confinement: &Confinement,
    system: &System,
    places: &[Place],
) -> Result<(), ChildError> {
    let abi = system.abi;
    if abi.0 == 0 {
        return match confinement.level {
            // Inside namespaces it is a second wall behind the first.
            Level::Full => Ok(()),
            _ => Err(refused("this kernel has no Landlock", libc::EOPNOTSUPP)),
        };
    }
    let tcp = if confinement.network == Network::Deny && abi.0 >= 4 { BIND_AND_CONNECT_TCP } else { 0 };
    let scoped = if abi.0 >= 6 { ABSTRACT_SOCKETS_AND_SIGNALS } else { 0 };
    let size = match abi.0 {
        ..4 => 8,
        4 | 5 => 16,
        _ => 24,
    };
    plan.step(op::RULESET).number(size).long(abi.files()).long(tcp).long(scoped);
    let mut rules = Rules { plan, all: abi.files() };
    match confinement.level {
        Level::Full => rules.inside_namespaces(places),
        _ => rules.alone(confinement, system, places)?,
    }
    plan.step(op::RESTRICT);
    Ok(())
}

struct Rules<'a> {
    plan: &'a mut Plan,
    all: u64,
}

impl Rules<'_> {
    /// Everything visible may be read; the mounts say what is visible.
    fn inside_namespaces(&mut self, places: &[Place]) {
        self.grant(Path::new("/"), LOOK, true);
        self.grant(Path::new("/tmp"), self.change(), true);
        // The view has nothing else in it.
        self.grant(Path::new("/dev"), READ_FILE | WRITE_FILE, true);
        for place in places.iter().filter(|place| place.access == Access::Write) {
            self.grant(&place.path, self.change(), place.is_dir);
        }
    }

    fn alone(
        &mut self,
        confinement: &Confinement,
        system: &System,
        places: &[Place],
    ) -> Result<(), ChildError> {
        let resolver = if confinement.network == Network::Allow { &system.resolver[..] } else { &[] };
        for place in system.visible.iter().chain(resolver) {
            self.grant(&place.path, LOOK, place.is_dir);
        }
        for copied in &system.copies {
            self.grant(&copied.true_path, LOOK, false);
        }
        self.devices(system);
        for path in PROC.into_iter().map(Path::new).filter(|path| path.exists()) {
            self.grant(path, READ_FILE | READ_DIR, path.is_dir());
        }
        self.plan.step(op::RULE_SELF).long(READ_FILE | READ_DIR);
        let hidden = |place: &&Place| place.access == Access::Hidden;
        let hidden: Vec<PathBuf> = places.iter().filter(hidden).map(|place| place.path.clone()).collect();
        let mut left = MAX_SIBLINGS;
        for place in places.iter().filter(|place| place.access != Access::Hidden) {
            let access = if place.access == Access::Write { self.change() } else { LOOK };
            // A place granted inside a hidden one is meant.
            let inside: Vec<&PathBuf> = hidden.iter().filter(|path| path.starts_with(&place.path)).collect();
            self.grant_around(&place.path, access, place.is_dir, &inside, &mut left)?;
        }
        Ok(())
    }

    /// Rules hold for everything below, so a folder with something hidden in it is granted piece by piece. Names
    /// in it stay visible, in the hidden part too: without them Python finds no module in the yard, and whether
    /// a name exists can't be kept from a program without a mount namespace anyway.
    fn grant_around(
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
                refused(format!("too many entries beside what is hidden in {}", path.display()), libc::E2BIG)
            })?;
            let kind = entry.file_type().map_err(failed)?;
            if !kind.is_symlink() {
                self.grant_around(&entry.path(), access, kind.is_dir(), hidden, left)?;
            }
        }
        Ok(())
    }

    fn devices(&mut self, system: &System) {
        for path in &system.devices {
            self.grant(path, READ_FILE | WRITE_FILE, false);
        }
    }

    /// All but making devices.
    fn change(&self) -> u64 {
        self.all & !(MAKE_CHAR | MAKE_BLOCK)
    }

    fn grant(&mut self, path: &Path, access: u64, is_dir: bool) {
        let access = access & self.all & if is_dir { u64::MAX } else { OF_FILES };
        self.plan.step(op::RULE).long(access).text(path.as_os_str().as_bytes());
    }
}
