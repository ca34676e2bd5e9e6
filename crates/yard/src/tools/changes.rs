//! The paths that may have changed since the last load; everything else need not be checked.

use super::stamp::Stamps;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Accumulates until the next load.
#[derive(Debug, PartialEq, Eq)]
pub enum Changes {
    Everywhere,
    /// At these paths, above and below them.
    At(BTreeSet<PathBuf>),
}

/// With more paths than this it is cheaper to check everything.
const MAX_PATHS: usize = 16;

impl Changes {
    pub fn add(&mut self, changed: PathBuf) {
        let Changes::At(paths) = self else { return };
        paths.insert(changed);
        if paths.len() > MAX_PATHS {
            *self = Changes::Everywhere;
        }
    }

    pub fn affect(&self, stamps: &Stamps) -> bool {
        match self {
            Changes::Everywhere => true,
            Changes::At(paths) => {
                stamps.is_aliased()
                    || stamps.paths().any(|(path, _)| paths.iter().any(|changed| overlaps(changed, path)))
            }
        }
    }
}

impl FromIterator<PathBuf> for Changes {
    fn from_iter<T: IntoIterator<Item = PathBuf>>(paths: T) -> Changes {
        let mut changes = Changes::At(BTreeSet::new());
        paths.into_iter().for_each(|changed| changes.add(changed));
        changes
    }
}

/// Compares bytes, which is fast; a false match of a sibling with the same prefix is harmless.
fn overlaps(changed: &Path, path: &Path) -> bool {
    let (changed, path) = (changed.as_os_str().as_bytes(), path.as_os_str().as_bytes());
    changed.starts_with(path) || path.starts_with(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_concerns_what_is_at_above_and_below_its_place() {
        let stamps = Stamps::of("/yard/./lib/tool/run.sh".into());
        let affect = |changed: &str| Changes::from_iter([changed.into()]).affect(&stamps);
        assert!(affect("/yard/lib/tool/run.sh"));
        assert!(affect("/yard/lib"), "a folder on the way moved");
        assert!(affect("/yard/lib/tool/run.sh/x"), "if it is a folder, its names are part of it");
        assert!(!affect("/yard/lib/tool/other.sh") && !affect("/yard/tools"));
        assert!(Changes::Everywhere.affect(&stamps));
        assert!(!Changes::from_iter([]).affect(&stamps));
    }

    #[test]
    fn many_changes_are_everywhere() {
        let at = |count: usize| Changes::from_iter((0..count).map(|n| PathBuf::from(n.to_string())));
        assert!(matches!(at(MAX_PATHS), Changes::At(_)));
        assert_eq!(at(MAX_PATHS + 1), Changes::Everywhere);
    }
}
