//! The part of this machine that every sandboxed program sees, determined once.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

use super::landlock::Landlock;
use super::mounts::{self, Access, Mount, Symlink};
use super::seccomp::Filter;
use super::shared_namespaces::SharedNamespaces;
use crate::image::Image;
use crate::{Confinement, SandboxLevel, TreeLevel};

/// Programs and libraries.
const PROGRAMS: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/sys/devices/system/cpu",
];
/// Entries of `/etc` that libraries and interpreters need; none reveals users or secrets of the machine.
const CONFIGURATION: [&str; 17] = [
    "ld.so.cache",
    "alternatives",
    "php",
    "perl",
    "fonts",
    // Certificate authorities, without the private keys beside them: Debian, Alpine and openSUSE,
    "ssl/certs",
    "ssl/cert.pem",
    "ssl/ca-bundle.pem",
    // Fedora,
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "pki/tls/openssl.d",
    "pki/ca-trust/extracted",
    "pki/java",
    "crypto-policies",
    // Arch,
    "ca-certificates/extracted",
    // and NixOS, whose links lead through this one to the store.
    "static",
];
/// Small configuration files, which are cheaper to copy than to mount.
const COPIED: [&str; 4] = ["/etc/localtime", "/etc/os-release", "/etc/ssl/openssl.cnf", "/etc/nsswitch.conf"];
const MAX_COPY: u64 = 16 << 10;
/// Prefixes of folders in `/etc` with a version in their name.
const VERSIONED: [&str; 3] = ["python3", "java-", "ImageMagick-"];
/// Visible only with access to the host's network.
const RESOLVER: [&str; 6] = ["resolv.conf", "hosts", "host.conf", "gai.conf", "services", "protocols"];
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The part of this machine that every sandboxed program sees.
pub struct SystemView {
    pub landlock: Landlock,
    pub visible: Vec<Mount>,
    pub resolver: Vec<Mount>,
    pub devices: Vec<PathBuf>,
    pub copies: Vec<CopiedFile>,
    pub shared: Option<SharedNamespaces>,
    pub links: Vec<Symlink>,
    pub uid: u32,
    pub gid: u32,
}

/// A small file that is copied into the view.
pub struct CopiedFile {
    pub path: PathBuf,
    /// With links resolved, for Landlock rules without a mount namespace.
    pub canonical_path: PathBuf,
    pub content: Vec<u8>,
}

impl CopiedFile {
    fn new(path: &str) -> Option<CopiedFile> {
        let canonical_path = fs::canonicalize(path).ok()?;
        let small = fs::metadata(&canonical_path).is_ok_and(|meta| meta.len() <= MAX_COPY);
        let content = small.then(|| fs::read(&canonical_path).ok())??;
        Some(CopiedFile { path: path.into(), canonical_path, content })
    }
}

impl SystemView {
    /// `level` decides whether tools run in a user namespace. `landlock` are the rights to use.
    pub fn new(level: TreeLevel, image: &Image, landlock: Landlock) -> SystemView {
        let mut links = Vec::new();
        let etc = |name: &str| Path::new("/etc").join(name);
        let versioned = fs::read_dir("/etc").into_iter().flatten().flatten();
        let versioned = versioned.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().as_bytes();
            VERSIONED.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
        });
        let paths = PROGRAMS.into_iter().map(PathBuf::from);
        let paths: Vec<PathBuf> = paths.chain(CONFIGURATION.map(etc)).chain(versioned).collect();
        let visible = existing_mounts(paths, &mut links);
        let resolver = existing_mounts(RESOLVER.map(etc).to_vec(), &mut links);
        links.sort();
        links.dedup();
        let is_device =
            |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.file_type().is_char_device());
        let devices = DEVICES.into_iter().map(PathBuf::from).filter(is_device).collect();
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let copies = COPIED.into_iter().filter_map(CopiedFile::new).collect();
        SystemView {
            landlock,
            visible,
            resolver,
            devices,
            copies,
            shared: SharedNamespaces::new(level, image),
            links,
            uid,
            gid,
        }
    }
}

impl SystemView {
    /// `counted`: the kernel counts all memory of the tree, or it has no limit.
    pub fn filter(&self, confinement: &Confinement, counted: bool) -> Vec<u8> {
        let filter = Filter {
            level: confinement.level,
            network: confinement.network,
            shared_ipc: self.shared.is_some(),
            counted,
            metadata: confinement.metadata,
            scoped_sockets: self.landlock.isolates_abstract_sockets(),
            truncate_right: self.landlock.has_truncate(),
        };
        filter.program()
    }

    /// Whether programs with the host's network see this path.
    pub fn shows_with_network(path: &Path) -> bool {
        path.strip_prefix("/etc").is_ok_and(|name| RESOLVER.iter().any(|shown| name == Path::new(shown)))
    }

    /// Whether every program sees this path.
    pub fn shows(&self, path: &Path) -> bool {
        let mounts = self.visible.iter().map(|mount| &mount.path);
        let files = self.copies.iter().map(|copied| &copied.path).chain(&self.devices);
        let links = self.links.iter().map(|link| &link.path);
        mounts.chain(files).chain(links).any(|shown| path.starts_with(shown))
            || ["/proc", "/dev"].iter().any(|tree| path.starts_with(tree))
    }

    /// The shared namespaces that a program at this level joins.
    pub fn shared(&self, level: SandboxLevel) -> Option<&SharedNamespaces> {
        self.shared.as_ref().filter(|_| level == SandboxLevel::Full)
    }
}

/// The existing paths, without duplicates and without paths inside another one.
fn existing_mounts(paths: Vec<PathBuf>, links: &mut Vec<Symlink>) -> Vec<Mount> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths {
        let mut followed = Vec::new();
        if let Ok(path) = mounts::canonical_path(&path, &mut followed) {
            links.extend(followed);
            found.push(path);
        }
    }
    found.sort();
    found.dedup_by(|later, kept| later.starts_with(kept));
    let mount = |path: PathBuf| Mount { is_dir: path.is_dir(), path, access: Access::Read, identity: None };
    found.into_iter().map(mount).collect()
}
