//! Finds the yard that holds the current folder, as git and cargo find theirs.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use toolyard_protocol::{Error, ErrorKind};
use toolyard_yard::is_yard;

/// The nearest folder from `start` upwards that is a yard. The search ends at `home`, at the root, and at a
/// folder in which other users could plant a yard, because a yard's tools run with the caller's rights.
pub fn find(start: &Path, home: Option<&Path>) -> Result<PathBuf, Error> {
    let home = home.and_then(|home| std::fs::canonicalize(home).ok());
    let mut stopped = String::new();
    for folder in start.ancestors() {
        if folder != start && !is_ours(folder) {
            stopped = format!("; {} was not searched, because other users can write to it", folder.display());
            break;
        }
        if is_yard(folder) {
            return Ok(folder.to_owned());
        }
        if Some(folder) == home.as_deref() {
            break;
        }
    }
    let message = format!("there is no yard in {} or above it{stopped}", start.display());
    Err(Error::new(ErrorKind::ResourceNotFound, message)
        .hint("name one with --yard DIR, or create one with 'toolyard init'"))
}

/// The yards above a yard, within the bounds of the search.
pub fn above<'a>(found: &'a Path, home: Option<&Path>) -> impl Iterator<Item = &'a Path> {
    let home = home.and_then(|home| std::fs::canonicalize(home).ok());
    let inside = move |folder: &&Path| {
        is_ours(folder) && !home.as_deref().is_some_and(|home| home.starts_with(folder) && home != *folder)
    };
    found.ancestors().skip(1).take_while(inside).filter(|folder| is_yard(folder))
}

fn is_ours(folder: &Path) -> bool {
    let us = rustix::process::geteuid().as_raw();
    std::fs::metadata(folder).is_ok_and(|folder| {
        matches!(folder.uid(), owner if owner == us || owner == 0) && folder.mode() & 0o002 == 0
    })
}
