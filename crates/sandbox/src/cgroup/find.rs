//! Finds where this process may create cgroups: in its own cgroup or beside it (version 2), or in its own cgroup of
//! each controller (version 1).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Version;

/// Prefix of the folder that holds the groups of one launcher; the pid and a number follow.
const PREFIX: &str = "toolyard-";
/// Where the daemon moves itself if its own cgroup holds no other process: a cgroup with processes cannot hand
/// controllers to groups inside it.
const DAEMON: &str = "toolyard-daemon";
const CONTROLLERS_V2: [&str; 2] = ["memory", "pids"];
/// In the order of [`super::Group`]'s folders.
const CONTROLLERS_V1: [&str; 3] = ["memory", "pids", "cpuacct"];

/// One mounted hierarchy.
struct Hierarchy {
    /// Empty in version 2.
    controllers: Vec<String>,
    mount: PathBuf,
    /// The part of the hierarchy that is mounted.
    root: PathBuf,
}

/// The folders that will hold this daemon's groups, and why the other version was not used. Does not try them.
pub fn parents() -> Result<(Version, Vec<PathBuf>), String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let hierarchies: Vec<Hierarchy> = mounts.lines().filter_map(Hierarchy::read).collect();
    if hierarchies.is_empty() {
        return Err("no cgroup file system is mounted".to_owned());
    }
    let unified = hierarchies.iter().find(|one| one.controllers.is_empty());
    let unified = unified.and_then(|one| one.folder(own.lines().find_map(|line| line.strip_prefix("0::"))?));
    let second = match unified.map(|folder| version_2(&folder)) {
        Some(Ok(parent)) => return Ok((Version::V2, vec![parent])),
        Some(Err(why)) => why,
        None => "no cgroup of version 2 is visible".to_owned(),
    };
    let first: Option<Vec<PathBuf>> = CONTROLLERS_V1
        .iter()
        .map(|controller| {
            let has = |one: &&Hierarchy| one.controllers.iter().any(|name| name == controller);
            hierarchies.iter().find(has)?.folder(own_path(&own, controller)?)
        })
        .collect();
    let parents = first.ok_or_else(|| second.clone())?;
    match parents.iter().find_map(|parent| writable(parent).err()) {
        None => Ok((Version::V1, parents)),
        Some(why) => Err(why),
    }
}

/// The name of a folder that no other launcher has.
pub fn own_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Removes what daemons that no longer exist left; a group with processes cannot be removed.
pub fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            remove(&entry.path());
        }
    }
}

/// Removes a folder of groups.
pub fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// The folder in which groups with a memory and a pids controller can be created.
fn version_2(own: &Path) -> Result<PathBuf, String> {
    let listed = |folder: &Path, file: &str| {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        CONTROLLERS_V2.iter().all(|controller| text.split_whitespace().any(|word| word == *controller))
    };
    if listed(own, "cgroup.subtree_control") {
        return writable(own).map(|()| own.to_owned());
    }
    if !listed(own, "cgroup.controllers") {
        return Err(format!("{} has no memory and pids controllers", own.display()));
    }
    if hand_down(own).is_ok() {
        return Ok(own.to_owned());
    }
    // A service manager gives a user's programs cgroups beside each other.
    match own.parent().filter(|parent| listed(parent, "cgroup.subtree_control")) {
        Some(parent) => writable(parent).map(|()| parent.to_owned()),
        None => Err(format!("{} holds other processes", own.display())),
    }
}

/// Hands the controllers down to groups inside this process's own. Only the root cgroup may hold processes too; else
/// this process moves into a group inside, if it is alone.
fn hand_down(own: &Path) -> io::Result<()> {
    let controllers = CONTROLLERS_V2.map(|controller| format!("+{controller}")).join(" ");
    let handed = || fs::write(own.join("cgroup.subtree_control"), &controllers);
    if handed().is_ok() {
        return Ok(());
    }
    let pid = std::process::id().to_string();
    let alone = fs::read_to_string(own.join("cgroup.procs"))?.split_whitespace().eq([pid.as_str()]);
    if !alone {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    let leaf = own.join(DAEMON);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => fs::write(leaf.join("cgroup.procs"), &pid)?,
    }
    handed().inspect_err(|_| {
        let _ = fs::write(own.join("cgroup.procs"), &pid);
        let _ = fs::remove_dir(&leaf);
    })
}

fn writable(folder: &Path) -> Result<(), String> {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)
        .map_err(|error| format!("{} may not be written: {error}", folder.display()))
}

/// The path of this process in the hierarchy of a controller, from the lines `ID:CONTROLLERS:PATH`.
fn own_path<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

impl Hierarchy {
    /// From a line of mountinfo: `… ROOT MOUNT OPTIONS … - TYPE SOURCE SUPER-OPTIONS`.
    fn read(line: &str) -> Option<Hierarchy> {
        let (mount, super_block) = line.split_once(" - ")?;
        let mut kind = super_block.split(' ');
        let controllers = match kind.next()? {
            "cgroup2" => Vec::new(),
            "cgroup" => kind.nth(1)?.split(',').map(str::to_owned).collect(),
            _ => return None,
        };
        let mut fields = mount.split(' ').skip(3);
        Some(Hierarchy { controllers, root: fields.next()?.into(), mount: fields.next()?.into() })
    }

    /// Where the cgroup `path` is visible.
    fn folder(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        Some(self.mount.join(below)).filter(|folder| folder.is_dir())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_and_paths_are_read() {
        let unified = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let one = Hierarchy::read(unified).unwrap();
        assert!(one.controllers.is_empty() && one.mount == Path::new("/sys/fs/cgroup"));
        let first = "34 30 0:29 /docker/1 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct";
        let one = Hierarchy::read(first).unwrap();
        assert_eq!(one.controllers, ["rw", "cpu", "cpuacct"]);
        assert_eq!(one.root, Path::new("/docker/1"));
        assert_eq!(one.folder("/elsewhere"), None, "it is outside of what is mounted");
        assert!(Hierarchy::read("22 1 8:1 / / rw - ext4 /dev/sda1 rw").is_none());
        let own = "9:name=systemd:/\n4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/d\n";
        assert_eq!((own_path(own, "cpuacct"), own_path(own, "pids")), (Some("/c"), None));
    }
}
