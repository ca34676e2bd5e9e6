//! Where something may have changed since the last load: what lies elsewhere need not be looked at.

use super::stamp::Stamps;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Grows until a load has dealt with it.
#[derive(Debug, PartialEq, Eq)]
pub enum Changes {
    Everywhere,
    /// At these paths, above and below them.
    At(BTreeSet<PathBuf>),
}

/// With more places than this it is cheaper to look at everything.
const MANY: usize = 16;

impl Changes {
    pub fn add(&mut self, place: PathBuf) {
        let Changes::At(places) = self else { return };
        places.insert(place);
        if places.len() > MANY {
            *self = Changes::Everywhere;
        }
    }

    pub fn concern(&self, stamps: &Stamps) -> bool {
        match self {
            Changes::Everywhere => true,
            Changes::At(places) => {
                stamps.is_elusive()
                    || stamps.paths().any(|(path, _)| places.iter().any(|place| touches(place, path)))
            }
        }
    }
}

impl FromIterator<PathBuf> for Changes {
    fn from_iter<T: IntoIterator<Item = PathBuf>>(places: T) -> Changes {
        let mut changes = Changes::At(BTreeSet::new());
        places.into_iter().for_each(|place| changes.add(place));
        changes
    }
}

/// By bytes, which is quick and at worst finds a neighbour whose name begins alike.
fn touches(place: &Path, path: &Path) -> bool {
    let (place, path) = (place.as_os_str().as_bytes(), path.as_os_str().as_bytes());
    place.starts_with(path) || path.starts_with(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_concerns_what_is_at_above_and_below_its_place() {
        let stamps = Stamps::of("/yard/./lib/tool/run.sh".into());
        let concern = |place: &str| Changes::from_iter([place.into()]).concern(&stamps);
        assert!(concern("/yard/lib/tool/run.sh"));
        assert!(concern("/yard/lib"), "a folder on the way moved");
        assert!(concern("/yard/lib/tool/run.sh/x"), "if it is a folder, its names are part of it");
        assert!(!concern("/yard/lib/tool/other.sh") && !concern("/yard/tools"));
        assert!(Changes::Everywhere.concern(&stamps));
        assert!(!Changes::from_iter([]).concern(&stamps));
    }

    #[test]
    fn many_changes_are_everywhere() {
        let at = |count: usize| Changes::from_iter((0..count).map(|n| PathBuf::from(n.to_string())));
        assert!(matches!(at(MANY), Changes::At(_)));
        assert_eq!(at(MANY + 1), Changes::Everywhere);
    }
}
