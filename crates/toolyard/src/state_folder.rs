//! The state folder: a real folder of the owner, closed to everybody else, and used only by the yard that created
//! it. One that came with a download must not decide what runs, which token is valid or where files are written.

use crate::private_file;
use rustix::process::geteuid;
use std::fs::{DirEntry, Permissions, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::UNIX_EPOCH;
use toolyard_protocol::{Error, ErrorKind};

/// The file that says for which folder and which yard the state was created.
pub const ORIGIN: &str = "origin";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No folder, or an empty one.
    Nothing,
    /// The state of this yard.
    Own,
}

/// Why a folder is not used as state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Link,
    NoFolder,
    OtherUser,
    /// It holds something that Toolyard does not create there.
    Entry(String),
    /// It is not empty, and nothing says where it came from.
    NoOrigin,
    /// Why the file `origin` is not used.
    InvalidOrigin(String),
    Copied,
    OtherYard,
    Unreadable(String),
}

impl Refusal {
    /// Whether the folder may be the yard's own, which only its owner can know.
    pub fn is_adoptable(&self) -> bool {
        matches!(self, Refusal::NoOrigin | Refusal::InvalidOrigin(_) | Refusal::Copied)
    }

    pub fn error(&self, state: &Path) -> Error {
        let what = match self {
            Refusal::Link => "is a symbolic link or lies behind one, and is not followed".to_owned(),
            Refusal::NoFolder => "is not a folder".to_owned(),
            Refusal::OtherUser => "belongs to another user".to_owned(),
            Refusal::Entry(what) => format!("contains {what}"),
            Refusal::NoOrigin => format!("was not created by this yard: it has no file '{ORIGIN}'"),
            Refusal::InvalidOrigin(what) => format!("was not created by this yard: {what}"),
            Refusal::Copied => "came from elsewhere: it was copied, unpacked or cloned".to_owned(),
            Refusal::OtherYard => "belongs to another yard".to_owned(),
            Refusal::Unreadable(error) => format!("cannot be read: {error}"),
        };
        let hint = match self {
            Refusal::OtherYard => format!(
                "set [state] dir in toolyard.toml to a folder of its own; if the yard was moved here from another \
                 disk, remove the file '{ORIGIN}' and run 'toolyard state adopt'"
            ),
            refusal if refusal.is_adoptable() => {
                "if it is your own copy, run 'toolyard state adopt'; otherwise remove it, or set [state] dir in \
                 toolyard.toml to a new folder"
                    .to_owned()
            }
            _ => "remove it, or set [state] dir in toolyard.toml to a folder of your own".to_owned(),
        };
        let kind = match self {
            Refusal::Unreadable(_) => ErrorKind::Unavailable,
            _ => ErrorKind::Forbidden,
        };
        Error::new(kind, format!("the state folder {} {what}", state.display())).hint(hint)
    }
}

/// Whose state it is. Changes nothing.
pub fn check(root: &Path, state: &Path) -> Result<Found, Refusal> {
    let below = state.ancestors().take_while(|folder| *folder != root && folder.starts_with(root));
    for folder in std::iter::once(state).chain(below) {
        if symlink_metadata(folder).is_ok_and(|meta| meta.is_symlink()) {
            return Err(Refusal::Link);
        }
    }
    // Root is no exception: whoever owns the folder could put links there that lead to other files.
    match symlink_metadata(state) {
        Ok(meta) if !meta.is_dir() => return Err(Refusal::NoFolder),
        Ok(meta) if meta.uid() != geteuid().as_raw() => return Err(Refusal::OtherUser),
        Err(_) => return Ok(Found::Nothing),
        Ok(_) => {}
    }
    if check_origin(root, state)? {
        check_entries(state)?;
        return Ok(Found::Own);
    }
    if is_empty(state)? {
        return Ok(Found::Nothing);
    }
    // Another process may have created it meanwhile; it writes the origin before everything else.
    if check_origin(root, state)? { Ok(Found::Own) } else { Err(Refusal::NoOrigin) }
}

/// Creates it, accessible to its owner only: it holds the audit log and the secrets. One that others can read is
/// closed to them, if it is the yard's own or empty.
pub fn create(root: &Path, state: &Path) -> Result<(), Error> {
    let refused = |refusal: Refusal| refusal.error(state);
    if check(root, state).map_err(refused)? == Found::Nothing {
        let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state);
        created.and_then(|()| close(state)).map_err(|error| not_created(state, &error))?;
        // Again, because until now others could have put something there.
        check(root, state).map_err(refused)?;
        write_origin(root, state)?;
        check(root, state).map_err(refused)?;
    }
    close(state).map_err(|error| not_created(state, &error))
}

/// Says that the folder is the state of this yard.
pub fn write_origin(root: &Path, state: &Path) -> Result<(), Error> {
    let origin = origin(root, state).map_err(|error| not_created(state, &error))?;
    private_file::read_or_create(&state.join(ORIGIN), || origin.into_bytes()).map(|_| ())
}

/// Makes it accessible to its owner only.
pub fn close(state: &Path) -> io::Result<()> {
    if is_open_to_others(state) {
        std::fs::set_permissions(state, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Whether others than its owner may enter it.
pub fn is_open_to_others(state: &Path) -> bool {
    symlink_metadata(state).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

/// The entries of the folder.
pub fn entries(state: &Path) -> Result<impl Iterator<Item = DirEntry>, Refusal> {
    let read = std::fs::read_dir(state).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    read.map(Vec::into_iter).map_err(|error| Refusal::Unreadable(error.to_string()))
}

/// Without device numbers, which differ after a restart; the time of birth is 0 where the file system has none.
fn origin(root: &Path, state: &Path) -> io::Result<String> {
    let identity = |folder: &Path| {
        let meta = symlink_metadata(folder)?;
        let born = meta.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Ok::<_, io::Error>(format!("{} {}", meta.ino(), born.map_or(0, |born| born.as_nanos())))
    };
    Ok(format!("folder {}\nyard {}\n", identity(state)?, identity(root)?))
}

/// `false` without a file `origin`.
fn check_origin(root: &Path, state: &Path) -> Result<bool, Refusal> {
    let read = private_file::read(&state.join(ORIGIN));
    let Some(found) = read.map_err(|error| Refusal::InvalidOrigin(error.message))? else { return Ok(false) };
    let found = String::from_utf8_lossy(&found);
    let wanted = origin(root, state).map_err(|error| Refusal::Unreadable(error.to_string()))?;
    match (found.lines().next(), wanted.lines().next()) {
        _ if *found == wanted => Ok(true),
        (found, wanted) if found == wanted => Err(Refusal::OtherYard),
        _ => Err(Refusal::Copied),
    }
}

/// Nothing in it leads elsewhere or belongs to others, also when files were unpacked over it.
fn check_entries(state: &Path) -> Result<(), Refusal> {
    for entry in entries(state)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.metadata() {
            Ok(meta) if meta.is_symlink() => {
                return Err(Refusal::Entry(format!("the symbolic link '{name}'")));
            }
            Ok(meta) if meta.uid() != geteuid().as_raw() => {
                return Err(Refusal::Entry(format!("'{name}', which belongs to another user")));
            }
            // It may be gone already, as temporary files are.
            _ => {}
        }
    }
    Ok(())
}

/// Whether it holds nothing but origins that are being written.
fn is_empty(state: &Path) -> Result<bool, Refusal> {
    let is_unfinished = |entry: DirEntry| {
        entry.file_name().to_str().is_some_and(|name| private_file::is_unfinished(name, ORIGIN))
    };
    Ok(entries(state)?.all(is_unfinished))
}

fn not_created(state: &Path, error: &io::Error) -> Error {
    let message = format!("the state folder {} cannot be created: {error}", state.display());
    Error::new(ErrorKind::Unavailable, message).hint("make it writable, or set [state] dir in toolyard.toml")
}
