//! The file system view of a fully sandboxed program: only system folders and granted paths.
//!
//! It is built in two parts. The first is the same for all runs with the same grants, so it can be pooled and
//! copied. The second is specific to the run: a private `/tmp` and `/proc`. Granted paths below `/tmp` are
//! first mounted in the `/tmp` of the new root and moved once the private `/tmp` is mounted.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::mounts::{Access, Mount, ResolvedPaths, Symlink};
use super::system::SystemView;
use super::{LaunchScript, Step, root_relative};
use crate::{Confinement, Network};

/// The same numbers for `mount` and for `mount_setattr`.
const RDONLY: u32 = 1;
const NOSUID: u32 = 2;
const NODEV: u32 = 4;
const NOEXEC: u32 = 8;

const TMP: &str = "/tmp";
/// The home folder of the program, in the private `/tmp`.
const HOME_IN_TMP: &str = "home";
/// Where the private `/tmp` is filled before it is moved to `/tmp`.
const STAGING: &str = "/.own";
/// Readable by uid 0 without capabilities, and not needed by tools.
const MASKED: [&str; 1] = ["/proc/keys"];

/// The first part, which can be pooled: a run cannot modify what other copies show.
pub fn prepare(
    script: &mut LaunchScript,
    confinement: &Confinement,
    system: &SystemView,
    resolved: &ResolvedPaths,
) {
    script.push(Step::Root {});
    let deferred = DeferredMounts::new(resolved);
    let mut view = ViewBuilder {
        script,
        deferred: &deferred,
        layers: Vec::new(),
        created: Vec::new(),
        masks: Vec::new(),
    };
    for dir in ["/etc", "/dev/pts", "/proc", TMP, "/var"] {
        view.folder(Path::new(dir));
    }
    if deferred.needs_staging() {
        view.folder(Path::new(STAGING));
    }
    view.system(system, confinement.network, resolved);
    for provided in &confinement.provided {
        view.file(Path::new(provided.path), provided.content);
    }
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
    script.push(Step::Pivot {});
}

/// The second part, specific to the run. `pooled`: the first part is a copy, which contains the `/proc` of
/// another pid namespace; the kernel lets an ordinary user mount `/proc` only where one is already visible.
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
        // Inodes use memory that `size` does not limit.
        let bytes = confinement.tmp_bytes;
        let options = format!("mode=1777,size={bytes},nr_inodes={}", (bytes / 4096).max(64));
        tmpfs(script, &options, Path::new(at));
        let home = Path::new(at).join(HOME_IN_TMP);
        script.push(Step::Dir { mode: 0o700, path: root_relative(&home) });
    }
    for (index, mount) in deferred.mounts.iter().enumerate() {
        let target = staging_folders(script, &mount.path);
        if mount.is_dir {
            script.push(Step::Dir { mode: 0o755, path: root_relative(&target) });
        } else {
            script.push(Step::File { path: root_relative(&target), content: b"" });
        }
        let source = deferred_path(index);
        script.push(Step::Move { source: root_relative(&source), path: root_relative(&target) });
    }
    for link in &deferred.links {
        let path = staging_folders(script, &link.path);
        let target = link.target.as_os_str().as_bytes();
        script.push(Step::Symlink { target, path: root_relative(&path) });
    }
    if deferred.needs_staging() {
        let (source, path) = (root_relative(Path::new(STAGING)), root_relative(Path::new(TMP)));
        script.push(Step::Move { source, path });
    }
    if pooled {
        proc(script);
    }
    // Not pooled: a tool could open the terminals of another one.
    let (flags, options) = (NOSUID | NOEXEC, &b"newinstance,ptmxmode=0666,mode=0600,max=64"[..]);
    script.push(Step::Mount { kind: b"devpts", flags, options, path: b"dev/pts" });
    if system.uid == 0 {
        for path in MASKED.into_iter().map(Path::new).filter(|path| path.exists()) {
            mask_file(script, path);
        }
    }
}

fn tmpfs(script: &mut LaunchScript, options: &str, path: &Path) {
    let (flags, options, path) = (NOSUID | NODEV, options.as_bytes(), root_relative(path));
    script.push(Step::Mount { kind: b"tmpfs", flags, options, path });
}

/// Mounts the `/proc` of this pid namespace. Its first process is not in the sandbox and would show the mounts and
/// the network of the machine; a tool sees only processes that it could trace.
fn proc(script: &mut LaunchScript) {
    let flags = RDONLY | NOSUID | NODEV | NOEXEC;
    script.push(Step::Mount { kind: b"proc", flags, options: b"hidepid=ptraceable", path: b"proc" });
}

/// Mounts an empty file over another.
fn mask_file(script: &mut LaunchScript, path: &Path) {
    let attributes = RDONLY | NOSUID | NODEV | NOEXEC;
    let (source, path) = (&b".empty"[..], root_relative(path));
    script.push(Step::Bind { attributes, device: 0, inode: 0, source, path });
}

/// Creates the parent folders of a path below `/tmp` in the staging folder; returns the path there.
fn staging_folders(script: &mut LaunchScript, path: &Path) -> PathBuf {
    let mut at = PathBuf::from(STAGING);
    let below = path.strip_prefix(TMP).unwrap_or(path);
    for folder in below.parent().into_iter().flat_map(Path::components) {
        at.push(folder);
        script.push(Step::Dir { mode: 0o755, path: root_relative(&at) });
    }
    Path::new(STAGING).join(below)
}

/// Temporary mount point of a granted path below `/tmp`.
fn deferred_path(index: usize) -> PathBuf {
    Path::new(TMP).join(index.to_string())
}

/// Mounts and links below `/tmp`, which are deferred until the private `/tmp` is mounted.
struct DeferredMounts<'a> {
    /// No path is inside another one.
    mounts: Vec<&'a Mount>,
    links: Vec<&'a Symlink>,
    /// The host's `/tmp` is granted as a whole, so there is no private one.
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

    /// Where a path of the view is located while the first part is built.
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
    /// Host paths that are visible (true) or masked (false); the deepest match applies.
    layers: Vec<(PathBuf, bool)>,
    /// Folders created in the new root.
    created: Vec<PathBuf>,
    /// Empty folders mounted over hidden ones.
    masks: Vec<PathBuf>,
}

impl ViewBuilder<'_> {
    /// Adds what every program sees.
    fn system(&mut self, system: &SystemView, network: Network, resolved: &ResolvedPaths) {
        let resolver = if network == Network::Allow { &system.resolver[..] } else { &[] };
        for mount in system.visible.iter().chain(resolver) {
            self.bind(mount, RDONLY | NOSUID | NODEV);
        }
        for path in &system.devices {
            self.file(path, b"");
            let source = path.as_os_str().as_bytes();
            // A read-only mount keeps root from changing the mode of the machine's device, not from writing to it.
            let attributes = RDONLY | NOSUID | NOEXEC;
            let path = root_relative(path);
            self.script.push(Step::Bind { attributes, device: 0, inode: 0, source, path });
        }
        proc(self.script);
        for copied in &system.copies {
            self.file(&copied.path, &copied.content);
        }
        self.identity(system, network);
        for (target, path) in [
            ("/proc/self/fd", "/dev/fd"),
            ("/proc/self/fd/0", "/dev/stdin"),
            ("/proc/self/fd/1", "/dev/stdout"),
            ("/proc/self/fd/2", "/dev/stderr"),
            ("pts/ptmx", "/dev/ptmx"),
            (TMP, "/var/tmp"),
            // Shared memory needs a tmpfs too; one mount for both is cheaper than two.
            (TMP, "/dev/shm"),
            ("/proc/self/mounts", "/etc/mtab"),
        ] {
            // Mount points are not reached through links.
            if !resolved.mounts.iter().any(|mount| mount.path.starts_with(path)) {
                self.link(Path::new(target), Path::new(path));
            }
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
        let (device, inode) = mount.checked();
        self.script.push(Step::Bind { attributes, device, inode, source, path: root_relative(&at) });
        self.script.shown.push(mount.path.clone());
        self.layers.push((mount.path.clone(), true));
    }

    fn is_visible(&self, path: &Path) -> bool {
        let over = self.layers.iter().filter(|(layer, _)| path.starts_with(layer));
        over.max_by_key(|(layer, _)| layer.as_os_str().len()).is_some_and(|(_, shown)| *shown)
    }

    /// Already visible read-only as part of the system, with no other rule for a folder above it.
    fn is_already_visible(&self, mount: &Mount, system: &SystemView) -> bool {
        system.visible.iter().any(|shown| mount.path.starts_with(&shown.path))
            && self.layers.iter().filter(|(layer, _)| mount.path.starts_with(layer)).count() == 1
    }

    /// Creates a folder and its parents, unless it is part of a visible mount.
    fn folder(&mut self, path: &Path) {
        if path.parent().is_none()
            || self.is_visible(path)
            || self.created.iter().any(|created| created == path)
        {
            return;
        }
        self.parent(path);
        let at = self.deferred.build_path(path);
        self.script.push(Step::Dir { mode: 0o755, path: root_relative(&at) });
        self.created.push(path.to_owned());
    }

    fn file(&mut self, path: &Path, content: &[u8]) {
        if self.is_visible(path) {
            return;
        }
        self.parent(path);
        let at = self.deferred.build_path(path);
        self.script.push(Step::File { path: root_relative(&at), content });
    }

    /// Creates a symbolic link, unless it is part of a visible mount.
    fn link(&mut self, target: &Path, path: &Path) {
        if self.is_visible(path) {
            return;
        }
        self.parent(path);
        let at = self.deferred.build_path(path);
        let target = target.as_os_str().as_bytes();
        self.script.push(Step::Symlink { target, path: root_relative(&at) });
    }

    /// Creates the parent folder; deferred mounts get theirs later.
    fn parent(&mut self, path: &Path) {
        let is_deferred = self.deferred.mounts.iter().any(|mount| mount.path == path);
        if let Some(parent) = path.parent().filter(|_| !is_deferred) {
            self.folder(parent);
        }
    }

    fn mask_folder(&mut self, path: &Path) {
        if !self.is_visible(path) {
            return;
        }
        let options = "mode=755,size=4k,nr_inodes=64";
        let at = self.deferred.build_path(path);
        tmpfs(self.script, options, &at);
        self.script.masked.push(path.to_owned());
        self.masks.push(at);
        // Paths granted inside it need their folders created again.
        self.layers.push((path.to_owned(), false));
        self.created.push(path.to_owned());
    }

    fn mask_file_if_visible(&mut self, path: &Path) {
        if self.is_visible(path) {
            let at = self.deferred.build_path(path);
            mask_file(self.script, &at);
            self.script.masked.push(path.to_owned());
        }
    }

    /// Makes the masks read-only: they are shared by all runs with this view.
    fn seal(&mut self) {
        for mask in &self.masks {
            self.script.push(Step::Seal { path: root_relative(mask) });
        }
    }

    /// Adds the program's own user and group, but no other name of this machine.
    fn identity(&mut self, system: &SystemView, network: Network) {
        let (uid, gid) = (system.uid, system.gid);
        let name = if uid == 0 { "root" } else { "tool" };
        let passwd = format!("{name}:x:{uid}:{gid}::{TMP}/{HOME_IN_TMP}:/bin/sh\n");
        let group = format!("{name}:x:{gid}:\n");
        self.file(Path::new("/etc/passwd"), passwd.as_bytes());
        self.file(Path::new("/etc/group"), group.as_bytes());
        if network != Network::Allow {
            self.file(Path::new("/etc/hosts"), b"127.0.0.1 localhost\n::1 localhost\n");
        }
    }
}
