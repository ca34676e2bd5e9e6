//! The file system as a fully confined program sees it: the system's own folders, what was granted, and nothing
//! else.
//!
//! It is created in two parts. The first is the same for every run that is granted the same, so it can be pooled and copied.
//! The second is the run's own: `/tmp`, and `/proc`, which shows its processes. What is granted below `/tmp` waits
//! in the root's own `/tmp`, where nobody sees it, until the private one is there to move it to.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::mounts::{Access, Mount, ResolvedPaths, Symlink};
use super::system::SystemView;
use super::{LaunchScript, op};
use crate::{Confinement, Network};

const RDONLY: u32 = 1;
const NOSUID: u32 = 2;
const NODEV: u32 = 4;
const NOEXEC: u32 = 8;

const TMP: &str = "/tmp";
/// Where a private `/tmp` is filled before it is moved to `/tmp`.
const STAGING: &str = "/.own";
/// Readable by uid 0 without any capability, and of no use to a tool.
const MASKED: [&str; 1] = ["/proc/keys"];

/// The part that can be pooled. Nothing in it can be changed by who is given a copy.
pub fn prepare(
    script: &mut LaunchScript,
    confinement: &Confinement,
    system: &SystemView,
    resolved: &ResolvedPaths,
) {
    script.step(op::ROOT);
    let deferred = DeferredMounts::new(resolved);
    let mut view = ViewBuilder {
        script,
        deferred: &deferred,
        layers: Vec::new(),
        created: Vec::new(),
        masks: Vec::new(),
    };
    for dir in ["/etc", "/dev", "/proc", TMP, "/var"] {
        view.folder(Path::new(dir));
    }
    if deferred.needs_staging() {
        view.folder(Path::new(STAGING));
    }
    view.system(system, confinement.network);
    for mount in &resolved.mounts {
        match (mount.access, mount.is_dir) {
            (Access::Read, _) if view.is_already_visible(mount, system) => {}
            (Access::Read, _) => view.bind(mount, RDONLY | NOSUID | NODEV),
            (Access::Write, _) => view.bind(mount, NOSUID | NODEV),
            (Access::Hidden, true) => view.mask_folder(&mount.path),
            (Access::Hidden, false) => view.mask_file_if_visible(&mount.path),
        }
    }
    for link in resolved.links.iter().filter(|link| !deferred.links.contains(link)) {
        view.link(&link.target, &link.path);
    }
    view.seal();
    script.step(op::PIVOT);
}

/// The part that is the run's own. `pooled`: the first one is a copy, with somebody else's `/proc` in it, without which
/// the kernel would let no ordinary user have one.
pub fn finish(
    script: &mut LaunchScript,
    confinement: &Confinement,
    system: &SystemView,
    resolved: &ResolvedPaths,
    pooled: bool,
) {
    let deferred = DeferredMounts::new(resolved);
    if !deferred.covers_tmp {
        let at = if deferred.needs_staging() { STAGING } else { TMP };
        // Inodes cost memory that `size` does not count.
        let bytes = confinement.tmp_bytes;
        let options = format!("mode=1777,size={bytes},nr_inodes={}", (bytes / 4096).max(64));
        script.step(op::TMPFS).number(NOSUID | NODEV).text(options).root_relative(Path::new(at));
    }
    for (index, mount) in deferred.mounts.iter().enumerate() {
        let target = staging_folders(script, &mount.path);
        if mount.is_dir {
            script.step(op::DIR).number(0o755).root_relative(&target);
        } else {
            script.step(op::FILE).root_relative(&target).block(b"");
        }
        script.step(op::MOVE).root_relative(&deferred_path(index)).root_relative(&target);
    }
    for link in &deferred.links {
        let path = staging_folders(script, &link.path);
        script.step(op::SYMLINK).text(link.target.as_os_str().as_bytes()).root_relative(&path);
    }
    if deferred.needs_staging() {
        script.step(op::MOVE).root_relative(Path::new(STAGING)).root_relative(Path::new(TMP));
    }
    if pooled {
        script.step(op::PROC).text("proc");
    }
    if system.uid == 0 {
        for path in MASKED.into_iter().map(Path::new).filter(|path| path.exists()) {
            script.step(op::BIND).number(RDONLY | NOSUID | NODEV | NOEXEC).text(".empty").root_relative(path);
        }
    }
}

/// Makes the folders on the way to a path below `/tmp` where the private one is being filled; gives the path there.
fn staging_folders(script: &mut LaunchScript, path: &Path) -> PathBuf {
    let mut at = PathBuf::from(STAGING);
    let below = path.strip_prefix(TMP).unwrap_or(path);
    for folder in below.parent().into_iter().flat_map(Path::components) {
        at.push(folder);
        script.step(op::DIR).number(0o755).root_relative(&at);
    }
    Path::new(STAGING).join(below)
}

/// Where what is granted below `/tmp` waits.
fn deferred_path(index: usize) -> PathBuf {
    Path::new(TMP).join(index.to_string())
}

/// What must wait for the private `/tmp`.
struct DeferredMounts<'a> {
    /// None inside another.
    mounts: Vec<&'a Mount>,
    links: Vec<&'a Symlink>,
    /// All of the machine's `/tmp` was granted, so there is no private one.
    covers_tmp: bool,
}

impl DeferredMounts<'_> {
    fn new(resolved: &ResolvedPaths) -> DeferredMounts<'_> {
        let granted = || resolved.mounts.iter().filter(|mount| mount.access != Access::Hidden);
        let covers_tmp = granted().any(|mount| Path::new(TMP).starts_with(&mount.path));
        let mut deferred = DeferredMounts { mounts: Vec::new(), links: Vec::new(), covers_tmp };
        if covers_tmp {
            return deferred;
        }
        for mount in granted().filter(|mount| mount.path.starts_with(TMP)) {
            if !deferred.covers(&mount.path) {
                deferred.mounts.push(mount);
            }
        }
        let links = resolved.links.iter().filter(|link| link.path.starts_with(TMP));
        deferred.links = links.filter(|link| !deferred.covers(&link.path)).collect();
        deferred
    }

    fn needs_staging(&self) -> bool {
        !self.mounts.is_empty() || !self.links.is_empty()
    }

    fn covers(&self, path: &Path) -> bool {
        self.mounts.iter().any(|mount| path.starts_with(&mount.path))
    }

    /// Where a path of the view is while the first part is created.
    fn build_path(&self, path: &Path) -> PathBuf {
        for (index, mount) in self.mounts.iter().enumerate() {
            if path == mount.path {
                return deferred_path(index);
            }
            if let Ok(below) = path.strip_prefix(&mount.path) {
                return deferred_path(index).join(below);
            }
        }
        path.to_owned()
    }
}

struct ViewBuilder<'a> {
    script: &'a mut LaunchScript,
    deferred: &'a DeferredMounts<'a>,
    /// What of the old root is visible (true) or masked again (false); the deepest word counts.
    layers: Vec<(PathBuf, bool)>,
    /// Folders created in the new one.
    created: Vec<PathBuf>,
    /// Folders put over hidden ones.
    masks: Vec<PathBuf>,
}

impl ViewBuilder<'_> {
    /// What every program sees.
    fn system(&mut self, system: &SystemView, network: Network) {
        let resolver = if network == Network::Allow { &system.resolver[..] } else { &[] };
        for mount in system.visible.iter().chain(resolver) {
            self.bind(mount, RDONLY | NOSUID | NODEV);
        }
        for path in &system.devices {
            self.file(path, b"");
            self.script
                .step(op::BIND)
                .number(NOSUID | NOEXEC)
                .text(path.as_os_str().as_bytes())
                .root_relative(path);
        }
        self.script.step(op::PROC).text("proc");
        for copied in &system.copies {
            self.file(&copied.path, &copied.content);
        }
        self.identity(system, network);
        for (target, path) in [
            ("/proc/self/fd", "/dev/fd"),
            ("/proc/self/fd/0", "/dev/stdin"),
            ("/proc/self/fd/1", "/dev/stdout"),
            ("/proc/self/fd/2", "/dev/stderr"),
            (TMP, "/var/tmp"),
            // Shared memory is files in a tmpfs; one such folder is enough, and half as dear.
            (TMP, "/dev/shm"),
            ("/proc/self/mounts", "/etc/mtab"),
        ] {
            self.link(Path::new(target), Path::new(path));
        }
        for link in &system.links {
            self.link(&link.target, &link.path);
        }
        self.file(Path::new("/.empty"), b"");
    }

    fn bind(&mut self, mount: &Mount, attributes: u32) {
        if mount.is_dir {
            self.folder(&mount.path);
        } else {
            self.file(&mount.path, b"");
        }
        let source = mount.path.as_os_str().as_bytes();
        let at = self.deferred.build_path(&mount.path);
        self.script.step(op::BIND).number(attributes).text(source).root_relative(&at);
        self.script.shown.push(mount.path.clone());
        self.layers.push((mount.path.clone(), true));
    }

    fn is_visible(&self, path: &Path) -> bool {
        let over = self.layers.iter().filter(|(layer, _)| path.starts_with(layer));
        over.max_by_key(|(layer, _)| layer.as_os_str().len()).is_some_and(|(_, shown)| *shown)
    }

    /// Already visible read-only as part of the system, and nothing else was said about what is around it.
    fn is_already_visible(&self, mount: &Mount, system: &SystemView) -> bool {
        system.visible.iter().any(|shown| mount.path.starts_with(&shown.path))
            && self.layers.iter().filter(|(layer, _)| mount.path.starts_with(layer)).count() == 1
    }

    /// A folder and those above it, unless it comes with something that is shown.
    fn folder(&mut self, path: &Path) {
        if path.parent().is_none()
            || self.is_visible(path)
            || self.created.iter().any(|created| created == path)
        {
            return;
        }
        self.parent(path);
        let at = self.deferred.build_path(path);
        self.script.step(op::DIR).number(0o755).root_relative(&at);
        self.created.push(path.to_owned());
    }

    fn file(&mut self, path: &Path, content: &[u8]) {
        if self.is_visible(path) {
            return;
        }
        self.parent(path);
        let at = self.deferred.build_path(path);
        self.script.step(op::FILE).root_relative(&at).block(content);
    }

    /// A link, unless it comes with something that is shown.
    fn link(&mut self, target: &Path, path: &Path) {
        if self.is_visible(path) {
            return;
        }
        self.parent(path);
        let at = self.deferred.build_path(path);
        self.script.step(op::SYMLINK).text(target.as_os_str().as_bytes()).root_relative(&at);
    }

    /// The folder that something is put in; what waits has its folders created later.
    fn parent(&mut self, path: &Path) {
        let waits = self.deferred.mounts.iter().any(|mount| mount.path == path);
        if let Some(parent) = path.parent().filter(|_| !waits) {
            self.folder(parent);
        }
    }

    fn mask_folder(&mut self, path: &Path) {
        if !self.is_visible(path) {
            return;
        }
        let options = "mode=755,size=4k,nr_inodes=64";
        let at = self.deferred.build_path(path);
        self.script.step(op::TMPFS).number(NOSUID | NODEV).text(options).root_relative(&at);
        self.script.masked.push(path.to_owned());
        self.masks.push(at);
        // What is granted inside it needs its folders again.
        self.layers.push((path.to_owned(), false));
        self.created.push(path.to_owned());
    }

    fn mask_file_if_visible(&mut self, path: &Path) {
        if self.is_visible(path) {
            let at = self.deferred.build_path(path);
            self.script
                .step(op::BIND)
                .number(RDONLY | NOSUID | NODEV | NOEXEC)
                .text(".empty")
                .root_relative(&at);
            self.script.masked.push(path.to_owned());
        }
    }

    /// Masks are there for every run with this view; none may leave something in them for the next.
    fn seal(&mut self) {
        for mask in &self.masks {
            self.script.step(op::SEAL).root_relative(mask);
        }
    }

    /// Who the program is, and no other name of this machine.
    fn identity(&mut self, system: &SystemView, network: Network) {
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
