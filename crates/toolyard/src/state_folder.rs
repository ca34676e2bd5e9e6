//! The state folder: a real folder of the owner, closed to everybody else.

use rustix::process::geteuid;
use std::fs::{Permissions, symlink_metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use toolyard_protocol::{Error, ErrorKind};

/// Refuses a state folder that is a link, which would lead to the state of something else, or belongs to another
/// user. One that does not exist yet is fine.
pub fn check(root: &Path, state: &Path) -> Result<(), Error> {
    let refused = |what: &str| {
        Error::new(ErrorKind::Forbidden, format!("the state folder {} {what}", state.display()))
            .hint("remove it, or set [state] dir in toolyard.toml to a folder of your own")
    };
    let below = state.ancestors().take_while(|folder| *folder != root && folder.starts_with(root));
    for folder in std::iter::once(state).chain(below) {
        if symlink_metadata(folder).is_ok_and(|meta| meta.is_symlink()) {
            return Err(refused("is a symbolic link or lies behind one, and is not followed"));
        }
    }
    match symlink_metadata(state) {
        Ok(meta) if !meta.is_dir() => Err(refused("is not a folder")),
        Ok(meta) if !geteuid().is_root() && meta.uid() != geteuid().as_raw() => {
            Err(refused("belongs to another user"))
        }
        _ => Ok(()),
    }
}

/// Whether others than its owner may enter it.
pub fn is_open_to_others(state: &Path) -> bool {
    symlink_metadata(state).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

/// Creates it, accessible to its owner only: it holds the audit log and the secrets. One that others can read is
/// closed to them.
pub fn create(state: &Path) -> Result<(), Error> {
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state);
    let closed = created.and_then(|()| match is_open_to_others(state) {
        true => std::fs::set_permissions(state, Permissions::from_mode(0o700)),
        false => Ok(()),
    });
    closed.map_err(|error| {
        let message = format!("the state folder {} cannot be created: {error}", state.display());
        Error::new(ErrorKind::Unavailable, message)
            .hint("make it writable, or set [state] dir in toolyard.toml")
    })
}
