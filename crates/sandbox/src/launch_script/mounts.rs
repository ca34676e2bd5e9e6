//! The paths a confinement names, with the links in their paths followed.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::confinement_error;
use crate::{ChildError, Confinement};

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Hidden,
    Read,
    Write,
}

/// One path, with links resolved.
#[derive(Debug, PartialEq, Eq)]
pub struct Mount {
    pub path: PathBuf,
    pub access: Access,
    pub is_dir: bool,
}

/// A link on the way to a path, and what it says.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symlink {
    pub path: PathBuf,
    pub target: PathBuf,
}

/// What a confinement names, as it is on disk.
#[derive(Default)]
pub struct ResolvedPaths {
    /// Outer ones first, so that the more exact word is the last.
    pub mounts: Vec<Mount>,
    /// Those that lead to them.
    pub links: Vec<Symlink>,
}

pub fn resolve(confinement: &Confinement) -> Result<ResolvedPaths, ChildError> {
    let mut mounts: Vec<Mount> = Vec::new();
    let mut links = Vec::new();
    for (list, access) in [
        (&confinement.hidden, Access::Hidden),
        (&confinement.read, Access::Read),
        (&confinement.write, Access::Write),
    ] {
        for path in list {
            let Some(mount) = resolve_path(path, access, &mut links)? else { continue };
            mounts.push(mount);
        }
    }
    mounts
        .sort_by(|a, b| (a.path.components().count(), &a.path).cmp(&(b.path.components().count(), &b.path)));
    // The same path twice: hidden beats all, write beats read.
    mounts.dedup_by(|later, kept| {
        let same = later.path == kept.path;
        if same && kept.access != Access::Hidden {
            kept.access =
                if later.access == Access::Hidden { Access::Hidden } else { kept.access.max(later.access) };
        }
        same
    });
    Ok(ResolvedPaths { mounts, links })
}

/// `None`: hidden and not there.
fn resolve_path(path: &Path, access: Access, links: &mut Vec<Symlink>) -> Result<Option<Mount>, ChildError> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(confinement_error(format!("{shown} is not an absolute path"), libc::EINVAL));
    }
    match canonical_path(path, links) {
        Ok(path) => {
            let is_dir = path.is_dir();
            Ok(Some(Mount { path, access, is_dir }))
        }
        Err(error) if access == Access::Hidden && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ChildError::Confinement { step: format!("find {shown}"), source }),
    }
}

/// The path without links; the links on the way are added to `links`.
pub fn canonical_path(path: &Path, links: &mut Vec<Symlink>) -> std::io::Result<PathBuf> {
    let mut done = PathBuf::from("/");
    let mut left: Vec<PathBuf> = reversed_components(path);
    let mut followed = 0;
    while let Some(piece) = left.pop() {
        if piece.as_os_str() == ".." {
            done.pop();
            continue;
        }
        done.push(piece);
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
    use crate::SandboxLevel;

    #[test]
    fn links_are_followed_and_told_and_the_stricter_word_wins() {
        let root = std::env::temp_dir().join(format!("toolyard-mount-{}", std::process::id()));
        fs::create_dir_all(root.join("real/state")).unwrap();
        let _ = fs::remove_file(root.join("link"));
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let root = root.canonicalize().unwrap();
        let confinement = Confinement {
            read: vec![root.join("link"), root.join("real/state")],
            write: vec![root.join("real")],
            hidden: vec![root.join("link/state"), root.join("none")],
            ..Confinement::at(SandboxLevel::Full)
        };
        let ResolvedPaths { mounts, links } = resolve(&confinement).unwrap();
        let told: Vec<_> = mounts.iter().map(|mount| (mount.path.as_path(), mount.access)).collect();
        let real = root.join("real");
        assert_eq!(told, [(&*real, Access::Write), (&*real.join("state"), Access::Hidden)]);
        assert!(links.contains(&Symlink { path: root.join("link"), target: "real".into() }));
        fs::remove_dir_all(root).unwrap();
    }
}
