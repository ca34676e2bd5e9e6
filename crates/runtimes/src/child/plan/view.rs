//! The file system as a fully confined program sees it: the system's own folders, what was granted, and nothing
//! else.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::empty::Empty;
use super::landlock::Abi;
use super::place::{self, Access, Link, Place, places};
use super::{Plan, filter, op};
use crate::child::image::Image;
use crate::child::{ChildError, Confinement, Level, Network, TreeLevel};

const RDONLY: u32 = 1;
const NOSUID: u32 = 2;
const NODEV: u32 = 4;
const NOEXEC: u32 = 8;

/// Where programs and libraries live.
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
/// Of the configuration only what libraries and interpreters need to start, and nothing that names the machine's
/// owner or its secrets.
const CONFIGURATION: [&str; 7] =
    ["ld.so.cache", "alternatives", "pki/tls", "php", "perl", "fonts", "ssl/certs"];
/// Small files of the same kind: a copy costs less than a mount.
const COPIED: [&str; 4] = ["/etc/localtime", "/etc/os-release", "/etc/ssl/openssl.cnf", "/etc/nsswitch.conf"];
const MAX_COPY: u64 = 16 << 10;
/// Folders with a version in their names.
const VERSIONED: [&str; 3] = ["python3", "java-", "ImageMagick-"];
/// Only with the machine's network.
const RESOLVER: [&str; 6] = ["resolv.conf", "hosts", "host.conf", "gai.conf", "services", "protocols"];
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Readable by uid 0 without any capability, and of no use to a tool.
const MASKED: [&str; 1] = ["/proc/keys"];

/// What every confined program sees, looked up once.
pub struct System {
    pub abi: Abi,
    pub visible: Vec<Place>,
    pub resolver: Vec<Place>,
    pub devices: Vec<PathBuf>,
    pub copies: Vec<Copied>,
    pub empty: Option<Empty>,
    links: Vec<Link>,
    uid: u32,
    gid: u32,
}

/// A small file that is copied into the view.
pub struct Copied {
    path: PathBuf,
    /// Where its links lead, for rules about the machine's own view.
    pub true_path: PathBuf,
    content: Vec<u8>,
}

impl Copied {
    fn new(path: &str) -> Option<Copied> {
        let true_path = fs::canonicalize(path).ok()?;
        let small = fs::metadata(&true_path).is_ok_and(|meta| meta.len() <= MAX_COPY);
        let content = small.then(|| fs::read(&true_path).ok())??;
        Some(Copied { path: path.into(), true_path, content })
    }
}

impl System {
    /// `level` is how trees are held, and so whether tools come with a user namespace.
    pub fn new(level: TreeLevel, image: &Image) -> System {
        let mut links = Vec::new();
        let etc = |name: &str| Path::new("/etc").join(name);
        let versioned = fs::read_dir("/etc").into_iter().flatten().flatten();
        let versioned = versioned.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().as_bytes();
            VERSIONED.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
        });
        let paths = PROGRAMS.into_iter().map(PathBuf::from);
        let paths: Vec<PathBuf> = paths.chain(CONFIGURATION.map(etc)).chain(versioned).collect();
        let visible = present(paths, &mut links);
        let resolver = present(RESOLVER.map(etc).to_vec(), &mut links);
        links.sort();
        links.dedup();
        let is_device =
            |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.file_type().is_char_device());
        let devices = DEVICES.into_iter().map(PathBuf::from).filter(is_device).collect();
        // SAFETY: plain calls without arguments.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let copies = COPIED.into_iter().filter_map(Copied::new).collect();
        let abi = Abi::of_this_kernel();
        System {
            abi,
            visible,
            resolver,
            devices,
            copies,
            empty: Empty::new(abi, level, image),
            links,
            uid,
            gid,
        }
    }
}

impl System {
    pub fn filter(&self, confinement: &Confinement) -> Vec<u8> {
        filter::program(confinement.level, confinement.network, self.empty.is_some())
    }

    /// The namespaces that a program at this level enters.
    pub fn shared(&self, level: Level) -> Option<&Empty> {
        self.empty.as_ref().filter(|_| level == Level::Full)
    }
}

/// Those of `paths` that exist, each once and none inside another.
fn present(paths: Vec<PathBuf>, links: &mut Vec<Link>) -> Vec<Place> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths {
        let mut followed = Vec::new();
        if let Ok(path) = place::true_path(&path, &mut followed) {
            links.extend(followed);
            found.push(path);
        }
    }
    found.sort();
    found.dedup_by(|later, kept| later.starts_with(kept));
    let place = |path: PathBuf| Place { is_dir: path.is_dir(), path, access: Access::Read };
    found.into_iter().map(place).collect()
}

pub fn write(
    plan: &mut Plan,
    confinement: &Confinement,
    system: &System,
    cwd: &Path,
) -> Result<(), ChildError> {
    let (wanted, links) = places(confinement)?;
    plan.step(op::ROOT);
    let mut view = View { plan, layers: Vec::new(), made: Vec::new() };
    for dir in ["/etc", "/dev", "/proc", "/tmp", "/var"] {
        view.folder(Path::new(dir));
    }
    view.private("/tmp", confinement.tmp_bytes);
    let resolver = if confinement.network == Network::Allow { &system.resolver[..] } else { &[] };
    for place in system.visible.iter().chain(resolver) {
        view.show(place, RDONLY | NOSUID | NODEV);
    }
    for path in &system.devices {
        view.file(path, b"");
        view.plan.step(op::BIND).number(NOSUID | NOEXEC).text(path.as_os_str().as_bytes()).inside(path);
    }
    view.plan.step(op::PROC).text("proc");
    for copied in &system.copies {
        view.file(&copied.path, &copied.content);
    }
    view.identity(system, confinement.network);
    for (target, path) in [
        ("/proc/self/fd", "/dev/fd"),
        ("/proc/self/fd/0", "/dev/stdin"),
        ("/proc/self/fd/1", "/dev/stdout"),
        ("/proc/self/fd/2", "/dev/stderr"),
        ("/tmp", "/var/tmp"),
        // Shared memory is files in a tmpfs; one such folder is enough, and half as dear.
        ("/tmp", "/dev/shm"),
        ("/proc/self/mounts", "/etc/mtab"),
    ] {
        view.link(Path::new(target), Path::new(path));
    }
    for link in &system.links {
        view.link(&link.target, &link.path);
    }
    view.file(Path::new("/.empty"), b"");
    if system.uid == 0 {
        for path in MASKED.into_iter().map(Path::new).filter(|path| path.exists()) {
            view.mask_file(path);
        }
    }
    for place in &wanted {
        match (place.access, place.is_dir) {
            (Access::Read, _) if view.is_plainly_shown(place, system) => {}
            (Access::Read, _) => view.show(place, RDONLY | NOSUID | NODEV),
            (Access::Write, _) => view.show(place, NOSUID | NODEV),
            (Access::Hidden, true) => view.mask_folder(&place.path),
            (Access::Hidden, false) => view.mask_file_if_shown(&place.path),
        }
    }
    for link in &links {
        view.link(&link.target, &link.path);
    }
    plan.step(op::PIVOT);
    plan.step(op::CHDIR).text(cwd.as_os_str().as_bytes());
    Ok(())
}

struct View<'a> {
    plan: &'a mut Plan,
    /// What of the old root is visible (true) or masked again (false); the deepest word counts.
    layers: Vec<(PathBuf, bool)>,
    /// Folders made in the new one.
    made: Vec<PathBuf>,
}

impl View<'_> {
    fn show(&mut self, place: &Place, attributes: u32) {
        if place.is_dir {
            self.folder(&place.path);
        } else {
            self.file(&place.path, b"");
        }
        let source = place.path.as_os_str().as_bytes();
        self.plan.step(op::BIND).number(attributes).text(source).inside(&place.path);
        self.layers.push((place.path.clone(), true));
    }

    fn is_shown(&self, path: &Path) -> bool {
        let over = self.layers.iter().filter(|(layer, _)| path.starts_with(layer));
        over.max_by_key(|(layer, _)| layer.as_os_str().len()).is_some_and(|(_, shown)| *shown)
    }

    /// Already visible read-only as part of the system, and nothing else was said about what is around it.
    fn is_plainly_shown(&self, place: &Place, system: &System) -> bool {
        system.visible.iter().any(|shown| place.path.starts_with(&shown.path))
            && self.layers.iter().filter(|(layer, _)| place.path.starts_with(layer)).count() == 1
    }

    /// A folder and those above it, unless it comes with something that is shown.
    fn folder(&mut self, path: &Path) {
        if path.parent().is_none() || self.is_shown(path) || self.made.iter().any(|made| made == path) {
            return;
        }
        if let Some(parent) = path.parent() {
            self.folder(parent);
        }
        self.plan.step(op::DIR).number(0o755).inside(path);
        self.made.push(path.to_owned());
    }

    fn file(&mut self, path: &Path, content: &[u8]) {
        if self.is_shown(path) {
            return;
        }
        if let Some(parent) = path.parent() {
            self.folder(parent);
        }
        self.plan.step(op::FILE).inside(path).block(content);
    }

    /// A link, unless it comes with something that is shown.
    fn link(&mut self, target: &Path, path: &Path) {
        if self.is_shown(path) {
            return;
        }
        if let Some(parent) = path.parent() {
            self.folder(parent);
        }
        self.plan.step(op::SYMLINK).text(target.as_os_str().as_bytes()).inside(path);
    }

    fn private(&mut self, path: &str, bytes: u64) {
        // Inodes cost memory that `size` does not count.
        let inodes = (bytes / 4096).max(64);
        let options = format!("mode=1777,size={bytes},nr_inodes={inodes}");
        self.plan.step(op::TMPFS).number(NOSUID | NODEV).text(options).inside(Path::new(path));
    }

    fn mask_folder(&mut self, path: &Path) {
        if !self.is_shown(path) {
            return;
        }
        let options = "mode=755,size=4k,nr_inodes=64";
        self.plan.step(op::TMPFS).number(NOSUID | NODEV).text(options).inside(path);
        // What is granted inside it needs its folders again.
        self.layers.push((path.to_owned(), false));
        self.made.push(path.to_owned());
    }

    fn mask_file_if_shown(&mut self, path: &Path) {
        if self.is_shown(path) {
            self.mask_file(path);
        }
    }

    fn mask_file(&mut self, path: &Path) {
        self.plan.step(op::BIND).number(RDONLY | NOSUID | NODEV | NOEXEC).text(".empty").inside(path);
    }

    /// Who the program is, and no other name of this machine.
    fn identity(&mut self, system: &System, network: Network) {
        let (uid, gid) = (system.uid, system.gid);
        let name = if uid == 0 { "root" } else { "tool" };
        let passwd = format!("{name}:x:{uid}:{gid}::/tmp:/bin/sh\n");
        let group = format!("{name}:x:{gid}:\n");
        self.file(Path::new("/etc/passwd"), passwd.as_bytes());
        self.file(Path::new("/etc/group"), group.as_bytes());
        if network != Network::Allow {
            self.file(Path::new("/etc/hosts"), b"127.0.0.1 localhost\n::1 localhost\n");
        }
    }
}
