//! The places a confinement names, with the links in their paths followed.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::refused;
use crate::child::{ChildError, Confinement};

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Hidden,
    Read,
    Write,
}

/// One place under its true path.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    pub path: PathBuf,
    pub access: Access,
    pub is_dir: bool,
}

/// A link on the way to a place, and what it says.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    pub path: PathBuf,
    pub target: PathBuf,
}

/// What a confinement names, as it is on disk.
#[derive(Default)]
pub struct Wanted {
    /// Outer ones first, so that the more exact word is the last.
    pub places: Vec<Place>,
    /// Those that lead to them.
    pub links: Vec<Link>,
}

pub fn wanted(confinement: &Confinement) -> Result<Wanted, ChildError> {
    let mut places: Vec<Place> = Vec::new();
    let mut links = Vec::new();
    for (list, access) in [
        (&confinement.hidden, Access::Hidden),
        (&confinement.read, Access::Read),
        (&confinement.write, Access::Write),
    ] {
        for path in list {
            let Some(place) = follow(path, access, &mut links)? else { continue };
            places.push(place);
        }
    }
    places
        .sort_by(|a, b| (a.path.components().count(), &a.path).cmp(&(b.path.components().count(), &b.path)));
    // The same place twice: hidden beats all, write beats read.
    places.dedup_by(|later, kept| {
        let same = later.path == kept.path;
        if same && kept.access != Access::Hidden {
            kept.access =
                if later.access == Access::Hidden { Access::Hidden } else { kept.access.max(later.access) };
        }
        same
    });
    Ok(Wanted { places, links })
}

/// `None`: hidden and not there.
fn follow(path: &Path, access: Access, links: &mut Vec<Link>) -> Result<Option<Place>, ChildError> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(refused(format!("{shown} is not an absolute path"), libc::EINVAL));
    }
    match true_path(path, links) {
        Ok(path) => {
            let is_dir = path.is_dir();
            Ok(Some(Place { path, access, is_dir }))
        }
        Err(error) if access == Access::Hidden && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ChildError::Confinement { step: format!("find {shown}"), source }),
    }
}

/// The path without links; the links on the way are added to `links`.
pub fn true_path(path: &Path, links: &mut Vec<Link>) -> std::io::Result<PathBuf> {
    let mut done = PathBuf::from("/");
    let mut left: Vec<PathBuf> = pieces(path);
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
        left.extend(pieces(&target));
        links.push(Link { path: done.clone(), target: target.clone() });
        if target.is_absolute() {
            done = PathBuf::from("/");
        } else {
            done.pop();
        }
    }
    Ok(done)
}

/// The components in the order they are popped.
fn pieces(path: &Path) -> Vec<PathBuf> {
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
    use crate::child::Level;

    #[test]
    fn links_are_followed_and_told_and_the_stricter_word_wins() {
        let root = std::env::temp_dir().join(format!("toolyard-place-{}", std::process::id()));
        fs::create_dir_all(root.join("real/state")).unwrap();
        let _ = fs::remove_file(root.join("link"));
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let root = root.canonicalize().unwrap();
        let confinement = Confinement {
            read: vec![root.join("link"), root.join("real/state")],
            write: vec![root.join("real")],
            hidden: vec![root.join("link/state"), root.join("none")],
            ..Confinement::at(Level::Full)
        };
        let Wanted { places, links } = wanted(&confinement).unwrap();
        let told: Vec<_> = places.iter().map(|place| (place.path.as_path(), place.access)).collect();
        let real = root.join("real");
        assert_eq!(told, [(&*real, Access::Write), (&*real.join("state"), Access::Hidden)]);
        assert!(links.contains(&Link { path: root.join("link"), target: "real".into() }));
        fs::remove_dir_all(root).unwrap();
    }
}
