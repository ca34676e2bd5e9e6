//! Small files that only their owner may read: the token, keys, the origin of the state folder.

use rustix::process::geteuid;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use toolyard_engine::clock::{SystemClock, SystemRandom, new_id};
use toolyard_protocol::{Error, ErrorKind};

/// The most that is read of such a file, in bytes.
const MAX: u64 = 4096;

/// The content of the file; when it does not exist, it is created with `fresh`.
pub fn read_or_create(file: &Path, fresh: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, Error> {
    if let Some(content) = read(file)? {
        return Ok(content);
    }
    create(file, &fresh()).map_err(|error| failed(file, &error))?;
    read(file)?.ok_or_else(|| failed(file, &io::ErrorKind::NotFound.into()))
}

/// The content of the file, or `None` when it does not exist. Refuses a link and a file of or for anybody else:
/// whoever put it there knows what it contains.
pub fn read(file: &Path) -> Result<Option<Vec<u8>>, Error> {
    let opened = match open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(refused(file, "is a symbolic link"));
        }
        Err(error) => return Err(failed(file, &error)),
    };
    let meta = opened.metadata().map_err(|error| failed(file, &error))?;
    if let Some(what) = problem(&meta) {
        return Err(refused(file, &what));
    }
    let mut content = Vec::new();
    opened.take(MAX).read_to_end(&mut content).map_err(|error| failed(file, &error))?;
    Ok(Some(content))
}

/// Opens a file to read it, without following a link or waiting for the writer of a pipe.
pub fn open(file: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(file)
}

/// Why it is not a private file of this user.
pub fn problem(meta: &Metadata) -> Option<String> {
    if !meta.is_file() {
        return Some("is not a regular file".to_owned());
    }
    if meta.uid() != geteuid().as_raw() {
        return Some("belongs to another user".to_owned());
    }
    let mode = meta.mode() & 0o777;
    (mode & 0o077 != 0).then(|| format!("is accessible to other users (mode {mode:o})"))
}

/// Whether a name is that of a file that [`read_or_create`] has not finished.
pub fn is_unfinished(name: &str, of: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new"));
    inner.and_then(|inner| inner.strip_prefix(of)).is_some_and(|id| id.starts_with('.'))
}

/// Written to a temporary file, then linked: of several concurrent processes one creates the file, and no one
/// sees a part of it.
fn create(file: &Path, content: &[u8]) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let temporary = file.with_file_name(format!(".{name}.{}.new", new_id(&SystemClock, &SystemRandom)));
    let mut options = OpenOptions::new();
    let mut opened = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = opened.write_all(content).and_then(|()| match std::fs::hard_link(&temporary, file) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    });
    written.and(std::fs::remove_file(&temporary))
}

fn refused(file: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Forbidden, format!("the file {} {what}, and is not used", file.display()))
        .hint("remove it; a new one is created")
}

fn failed(file: &Path, error: &io::Error) -> Error {
    let message = format!("the file {} cannot be read or written: {error}", file.display());
    Error::new(ErrorKind::Unavailable, message).hint("make the state folder writable")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_is_created_once_and_one_that_others_can_know_is_refused() {
        let folder = std::env::temp_dir().join(format!("toolyard-{}", new_id(&SystemClock, &SystemRandom)));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("key");
        assert_eq!(read(&file), Ok(None));
        for fresh in ["first", "second"] {
            assert_eq!(read_or_create(&file, || fresh.into()), Ok(b"first".to_vec()));
        }
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file is left");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let reason = |file: &Path| read_or_create(file, Vec::new).unwrap_err().message;
        assert!(reason(&file).contains("is accessible to other users (mode 644)"));
        let link = folder.join("link");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        assert!(reason(&link).contains("is a symbolic link"));
        assert!(reason(&folder).contains("is not a regular file"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn unfinished_files_are_known_by_their_name() {
        for (name, unfinished) in
            [(".origin.1.new", true), (".origin.new", false), ("origin", false), (".token.1.new", false)]
        {
            assert_eq!(is_unfinished(name, "origin"), unfinished, "{name}");
        }
    }
}
