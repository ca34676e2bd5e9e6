//! The file system as a fully confined program sees it: the system's own folders, what was granted, and nothing
//! else.
//!
//! It is made in two parts. The first is the same for every run that is granted the same, so it can be kept and copied.
//! The second is the run's own: `/tmp`, and `/proc`, which shows its processes. What is granted below `/tmp` waits
//! in the root's own `/tmp`, where nobody sees it, until the private one is there to move it to.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::place::{Access, Link, Place, Wanted};
use super::system::System;
use super::{Plan, op};
use crate::child::{Confinement, Network};

const RDONLY: u32 = 1;
const NOSUID: u32 = 2;
const NODEV: u32 = 4;
const NOEXEC: u32 = 8;

const TMP: &str = "/tmp";
/// Where a private `/tmp` is filled before it takes its place.
const OWN: &str = "/.own";
/// Readable by uid 0 without any capability, and of no use to a tool.
const MASKED: [&str; 1] = ["/proc/keys"];

/// The part that can be kept. Nothing in it can be changed by who is given a copy.
pub fn prepare(plan: &mut Plan, confinement: &Confinement, system: &System, wanted: &Wanted) {
    plan.step(op::ROOT);
    let later = Later::new(wanted);
    let mut view = View { plan, later: &later, layers: Vec::new(), made: Vec::new(), masks: Vec::new() };
    for dir in ["/etc", "/dev", "/proc", TMP, "/var"] {
        view.folder(Path::new(dir));
    }
    if later.is_moved() {
        view.folder(Path::new(OWN));
    }
    view.system(system, confinement.network);
    for place in &wanted.places {
        match (place.access, place.is_dir) {
            (Access::Read, _) if view.is_plainly_shown(place, system) => {}
            (Access::Read, _) => view.show(place, RDONLY | NOSUID | NODEV),
            (Access::Write, _) => view.show(place, NOSUID | NODEV),
            (Access::Hidden, true) => view.mask_folder(&place.path),
            (Access::Hidden, false) => view.mask_file_if_shown(&place.path),
        }
    }
    for link in wanted.links.iter().filter(|link| !later.links.contains(link)) {
        view.link(&link.target, &link.path);
    }
    view.seal();
    plan.step(op::PIVOT);
}

/// The part that is the run's own. `kept`: the first one is a copy, with somebody else's `/proc` in it, without which
/// the kernel would let no ordinary user have one.
pub fn finish(plan: &mut Plan, confinement: &Confinement, system: &System, wanted: &Wanted, kept: bool) {
    let later = Later::new(wanted);
    if !later.whole {
        let at = if later.is_moved() { OWN } else { TMP };
        // Inodes cost memory that `size` does not count.
        let bytes = confinement.tmp_bytes;
        let options = format!("mode=1777,size={bytes},nr_inodes={}", (bytes / 4096).max(64));
        plan.step(op::TMPFS).number(NOSUID | NODEV).text(options).inside(Path::new(at));
    }
    for (index, place) in later.places.iter().enumerate() {
        let target = own_folders(plan, &place.path);
        if place.is_dir {
            plan.step(op::DIR).number(0o755).inside(&target);
        } else {
            plan.step(op::FILE).inside(&target).block(b"");
        }
        plan.step(op::MOVE).inside(&waiting(index)).inside(&target);
    }
    for link in &later.links {
        let path = own_folders(plan, &link.path);
        plan.step(op::SYMLINK).text(link.target.as_os_str().as_bytes()).inside(&path);
    }
    if later.is_moved() {
        plan.step(op::MOVE).inside(Path::new(OWN)).inside(Path::new(TMP));
    }
    if kept {
        plan.step(op::PROC).text("proc");
    }
    if system.uid == 0 {
        for path in MASKED.into_iter().map(Path::new).filter(|path| path.exists()) {
            plan.step(op::BIND).number(RDONLY | NOSUID | NODEV | NOEXEC).text(".empty").inside(path);
        }
    }
}

/// Makes the folders on the way to a path below `/tmp` where the private one is being filled; gives the path there.
fn own_folders(plan: &mut Plan, path: &Path) -> PathBuf {
    let mut at = PathBuf::from(OWN);
    let below = path.strip_prefix(TMP).unwrap_or(path);
    for folder in below.parent().into_iter().flat_map(Path::components) {
        at.push(folder);
        plan.step(op::DIR).number(0o755).inside(&at);
    }
    Path::new(OWN).join(below)
}

/// Where what is granted below `/tmp` waits.
fn waiting(index: usize) -> PathBuf {
    Path::new(TMP).join(index.to_string())
}

/// What must wait for the private `/tmp`.
struct Later<'a> {
    /// None inside another.
    places: Vec<&'a Place>,
    links: Vec<&'a Link>,
    /// All of the machine's `/tmp` was granted, so there is no private one.
    whole: bool,
}

impl Later<'_> {
    fn new(wanted: &Wanted) -> Later<'_> {
        let granted = || wanted.places.iter().filter(|place| place.access != Access::Hidden);
        let whole = granted().any(|place| Path::new(TMP).starts_with(&place.path));
        let mut later = Later { places: Vec::new(), links: Vec::new(), whole };
        if whole {
            return later;
        }
        for place in granted().filter(|place| place.path.starts_with(TMP)) {
            if !later.holds(&place.path) {
                later.places.push(place);
            }
        }
        let links = wanted.links.iter().filter(|link| link.path.starts_with(TMP));
        later.links = links.filter(|link| !later.holds(&link.path)).collect();
        later
    }

    fn is_moved(&self) -> bool {
        !self.places.is_empty() || !self.links.is_empty()
    }

    fn holds(&self, path: &Path) -> bool {
        self.places.iter().any(|place| path.starts_with(&place.path))
    }

    /// Where a path of the view is while the first part is made.
    fn at(&self, path: &Path) -> PathBuf {
        for (index, place) in self.places.iter().enumerate() {
            if path == place.path {
                return waiting(index);
            }
            if let Ok(below) = path.strip_prefix(&place.path) {
                return waiting(index).join(below);
            }
        }
        path.to_owned()
    }
}

struct View<'a> {
    plan: &'a mut Plan,
    later: &'a Later<'a>,
    /// What of the old root is visible (true) or masked again (false); the deepest word counts.
    layers: Vec<(PathBuf, bool)>,
    /// Folders made in the new one.
    made: Vec<PathBuf>,
    /// Folders put over hidden ones.
    masks: Vec<PathBuf>,
}

impl View<'_> {
    /// What every program sees.
    fn system(&mut self, system: &System, network: Network) {
        let resolver = if network == Network::Allow { &system.resolver[..] } else { &[] };
        for place in system.visible.iter().chain(resolver) {
            self.show(place, RDONLY | NOSUID | NODEV);
        }
        for path in &system.devices {
            self.file(path, b"");
            self.plan.step(op::BIND).number(NOSUID | NOEXEC).text(path.as_os_str().as_bytes()).inside(path);
        }
        self.plan.step(op::PROC).text("proc");
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

    fn show(&mut self, place: &Place, attributes: u32) {
        if place.is_dir {
            self.folder(&place.path);
        } else {
            self.file(&place.path, b"");
        }
        let source = place.path.as_os_str().as_bytes();
        let at = self.later.at(&place.path);
        self.plan.step(op::BIND).number(attributes).text(source).inside(&at);
        self.plan.shown.push(place.path.clone());
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
        self.parent(path);
        let at = self.later.at(path);
        self.plan.step(op::DIR).number(0o755).inside(&at);
        self.made.push(path.to_owned());
    }

    fn file(&mut self, path: &Path, content: &[u8]) {
        if self.is_shown(path) {
            return;
        }
        self.parent(path);
        let at = self.later.at(path);
        self.plan.step(op::FILE).inside(&at).block(content);
    }

    /// A link, unless it comes with something that is shown.
    fn link(&mut self, target: &Path, path: &Path) {
        if self.is_shown(path) {
            return;
        }
        self.parent(path);
        let at = self.later.at(path);
        self.plan.step(op::SYMLINK).text(target.as_os_str().as_bytes()).inside(&at);
    }

    /// The folder that something is put in; what waits has its folders made later.
    fn parent(&mut self, path: &Path) {
        let waits = self.later.places.iter().any(|place| place.path == path);
        if let Some(parent) = path.parent().filter(|_| !waits) {
            self.folder(parent);
        }
    }

    fn mask_folder(&mut self, path: &Path) {
        if !self.is_shown(path) {
            return;
        }
        let options = "mode=755,size=4k,nr_inodes=64";
        let at = self.later.at(path);
        self.plan.step(op::TMPFS).number(NOSUID | NODEV).text(options).inside(&at);
        self.plan.masked.push(path.to_owned());
        self.masks.push(at);
        // What is granted inside it needs its folders again.
        self.layers.push((path.to_owned(), false));
        self.made.push(path.to_owned());
    }

    fn mask_file_if_shown(&mut self, path: &Path) {
        if self.is_shown(path) {
            let at = self.later.at(path);
            self.plan.step(op::BIND).number(RDONLY | NOSUID | NODEV | NOEXEC).text(".empty").inside(&at);
            self.plan.masked.push(path.to_owned());
        }
    }

    /// Masks are there for every run with this view; none may leave something in them for the next.
    fn seal(&mut self) {
        for mask in &self.masks {
            self.plan.step(op::SEAL).inside(mask);
        }
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
