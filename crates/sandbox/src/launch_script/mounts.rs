//! Resolves the paths of a confinement, with their symbolic links.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::confinement_error;
use crate::{ChildError, Confinement, Identity};

/// The same limit as the kernel's.
const MAX_LINKS: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Hidden,
    Read,
    Write,
}

/// One path, with symbolic links resolved.
#[derive(Debug, PartialEq, Eq)]
pub struct Mount {
    pub path: PathBuf,
    pub access: Access,
    pub is_dir: bool,
    /// What must be found there at the start; `None` for paths that no tool can change.
    pub identity: Option<Identity>,
}

impl Mount {
    /// As the steps have it: device and inode, 0 if they are not compared.
    pub fn checked(&self) -> (u64, u64) {
        self.identity.map_or((0, 0), |identity| (identity.device, identity.inode))
    }
}

/// A symbolic link on the way to a path, and its target.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symlink {
    pub path: PathBuf,
    pub target: PathBuf,
}

/// The resolved paths of a confinement.
#[derive(Default)]
pub struct ResolvedPaths {
    /// Parents first, so that the more specific path takes effect last.
    pub mounts: Vec<Mount>,
    /// Symbolic links on the way to them.
    pub links: Vec<Symlink>,
}

pub fn resolve(confinement: &Confinement) -> Result<ResolvedPaths, ChildError> {
    let mut mounts: Vec<Mount> = Vec::new();
    let mut links = Vec::new();
    for grant in &confinement.grants {
        let access = if grant.writable { Access::Write } else { Access::Read };
        let (path, is_dir) = (grant.path.clone(), grant.is_dir);
        mounts.push(Mount { path, access, is_dir, identity: Some(grant.identity) });
    }
    for (list, access) in [(&confinement.hidden, Access::Hidden), (&confinement.read, Access::Read)] {
        for path in list {
            let Some(mount) = resolve_path(path, access, &mut links)? else { continue };
            mounts.push(mount);
        }
    }
    mounts
        .sort_by(|a, b| (a.path.components().count(), &a.path).cmp(&(b.path.components().count(), &b.path)));
    // Duplicate paths: hidden takes precedence, then write.
    mounts.dedup_by(|later, kept| {
        let same = later.path == kept.path;
        if same && kept.access != Access::Hidden {
            kept.access =
                if later.access == Access::Hidden { Access::Hidden } else { kept.access.max(later.access) };
            kept.identity = kept.identity.or(later.identity);
        }
        same
    });
    Ok(ResolvedPaths { mounts, links })
}

/// `None` if the path is hidden and does not exist.
fn resolve_path(path: &Path, access: Access, links: &mut Vec<Symlink>) -> Result<Option<Mount>, ChildError> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(confinement_error(format!("{shown} is not an absolute path"), libc::EINVAL));
    }
    match canonical_path(path, links) {
        Ok(path) => {
            let is_dir = path.is_dir();
            Ok(Some(Mount { path, access, is_dir, identity: None }))
        }
        Err(error) if access == Access::Hidden && is_missing(&error) => Ok(None),
        Err(source) => Err(ChildError::Confinement { step: format!("find {shown}"), source }),
    }
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// Resolves all symbolic links of a path and adds them to `links`.
pub fn canonical_path(path: &Path, links: &mut Vec<Symlink>) -> std::io::Result<PathBuf> {
    let mut done = PathBuf::from("/");
    let mut left: Vec<PathBuf> = reversed_components(path);
    let mut followed = 0;
    while let Some(component) = left.pop() {
        if component.as_os_str() == ".." {
            done.pop();
            continue;
        }
        done.push(component);
        if !fs::symlink_metadata(&done)?.is_symlink() {
            continue;
        }
        followed += 1;
        if followed > MAX_LINKS {
            return Err(std::io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = fs::read_link(&done)?;
        left.extend(reversed_components(&target));
        links.push(Symlink { path: done.clone(), target: target.clone() });
        if target.is_absolute() {
            done = PathBuf::from("/");
        } else {
            done.pop();
        }
    }
    Ok(done)
}

/// The components in the order they are popped.
fn reversed_components(path: &Path) -> Vec<PathBuf> {
    let named = |part: Component<'_>| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    };
    path.components().rev().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grant, SandboxLevel};

    #[test]
    fn links_are_resolved_and_the_stricter_access_wins() {
        let root = std::env::temp_dir().join(format!("toolyard-mount-{}", std::process::id()));
        fs::create_dir_all(root.join("real/state")).unwrap();
        let _ = fs::remove_file(root.join("link"));
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let root = root.canonicalize().unwrap();
        let confinement = Confinement {
            read: vec![root.join("link"), root.join("real/state")],
            grants: vec![Grant::open(&root.join("real"), true).unwrap()],
            hidden: vec![root.join("link/state"), root.join("none")],
            ..Confinement::at(SandboxLevel::Full)
        };
        let ResolvedPaths { mounts, links } = resolve(&confinement).unwrap();
        let access: Vec<_> = mounts.iter().map(|mount| (mount.path.as_path(), mount.access)).collect();
        let real = root.join("real");
        assert_eq!(access, [(&*real, Access::Write), (&*real.join("state"), Access::Hidden)]);
        assert!(links.contains(&Symlink { path: root.join("link"), target: "real".into() }));
        fs::remove_dir_all(root).unwrap();
    }
}
