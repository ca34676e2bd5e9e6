//! Stores secrets as files: one per secret, readable only by their owner, replaced atomically.

use super::folder_stamp::FolderStamp;
use super::loaded::Value;
use super::{MAX_BYTES, check};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use toolyard_protocol::SecretName;

const MAX_SECRETS: usize = 256;

pub struct Store {
    folder: PathBuf,
}

impl Store {
    pub fn new(folder: PathBuf) -> Store {
        Store { folder }
    }

    /// A stamp of the folder and its files.
    pub fn stamp(&self) -> FolderStamp {
        let files = self.names().unwrap_or_default();
        FolderStamp::at(std::iter::once(self.folder.clone()).chain(files.iter().map(|name| self.file(name))))
    }

    /// Reads all stored secrets. Fails if the folder is accessible to other users.
    pub fn read(&self) -> Result<BTreeMap<SecretName, Value>, String> {
        if !self.folder_exists()? {
            return Ok(BTreeMap::new());
        }
        let names = self.names().map_err(|error| self.describe_error("cannot be read", &error))?;
        let read = |name: SecretName| {
            let value = read(&self.file(&name));
            (name, value)
        };
        Ok(names.into_iter().map(read).collect())
    }

    /// Stores a value atomically: readers see the old or the new value.
    pub fn write(&self, name: &SecretName, value: &str) -> Result<(), String> {
        let failed = |error: io::Error| self.describe_error("cannot be written", &error);
        if !self.folder_exists()? {
            DirBuilder::new().mode(0o700).create(&self.folder).map_err(failed)?;
            // A yard is often a git repository. Errors are ignored, because this is only a precaution.
            let _ = std::fs::write(self.folder.join(".gitignore"), "*\n");
        }
        let names = self.names().map_err(failed)?;
        if names.len() >= MAX_SECRETS && !names.contains(name) {
            return Err(format!("there are already {MAX_SECRETS} secrets; remove one first"));
        }
        self.remove_stale_copies(name);
        let new = self.folder.join(format!(".{name}.{}.new", std::process::id()));
        let written = write(&new, value).and_then(|()| std::fs::rename(&new, self.file(name)));
        if let Err(error) = written {
            let _ = std::fs::remove_file(&new);
            return Err(failed(error));
        }
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(failed)
    }

    /// `false` if it does not exist.
    pub fn remove(&self, name: &SecretName) -> Result<bool, String> {
        self.remove_stale_copies(name);
        match std::fs::remove_file(self.file(name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.describe_error("cannot be changed", &error)),
        }
    }

    /// Removes temporary copies left by a process that was killed while it stored this secret.
    fn remove_stale_copies(&self, name: &SecretName) {
        let prefix = format!(".{name}.");
        let is_copy = |file: &str| {
            let number = file.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".new"));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        };
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_copy) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    fn file(&self, name: &SecretName) -> PathBuf {
        self.folder.join(name.as_str())
    }

    /// Ignores files whose name is not a valid secret name, such as temporary files.
    fn names(&self) -> io::Result<Vec<SecretName>> {
        let entries = std::fs::read_dir(&self.folder)?;
        let mut names: Vec<SecretName> =
            entries.flatten().filter_map(|entry| SecretName::parse(entry.file_name().to_str()?)).collect();
        names.sort();
        names.truncate(MAX_SECRETS);
        Ok(names)
    }

    fn folder_exists(&self) -> Result<bool, String> {
        // Links are not followed, because their target may belong to another user.
        match std::fs::symlink_metadata(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.describe_error("cannot be read", &error)),
            Ok(meta) if !meta.is_dir() => Err(format!("{} is not a folder", self.folder.display())),
            Ok(meta) => check_private(&meta, 0o700)
                .map(|()| true)
                .map_err(|what| format!("the secrets folder {} {what}", self.folder.display())),
        }
    }

    fn describe_error(&self, what: &str, error: &io::Error) -> String {
        format!("the secrets folder {} {what}: {error}", self.folder.display())
    }
}

/// Fails if the file is accessible to other users or owned by another user.
fn check_private(meta: &Metadata, wanted: u32) -> Result<(), String> {
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me {
        return Err(format!("belongs to user {}, not to the current user {me}", meta.uid()));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(format!(
            "is accessible to other users (mode {:o}); chmod it to {wanted:o} and replace the secret",
            meta.mode() & 0o777
        ));
    }
    Ok(())
}

fn read(path: &Path) -> Value {
    let failed = |error: io::Error| format!("its file cannot be read: {error}");
    // Does not follow links or block on a pipe.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err("it is not stored in a regular file".to_owned());
    }
    check_private(&meta, 0o600).map_err(|what| format!("its file {what}"))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let value = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    check(&value).map(|()| value)
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(value.as_bytes())?;
    file.sync_all()
}
