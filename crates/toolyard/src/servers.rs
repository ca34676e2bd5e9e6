//! The addresses of the servers that use a state folder: each keeps a locked file, so that the record of a dead
//! one does not count.

use crate::private_file;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use toolyard_engine::clock::{SystemClock, SystemRandom, new_id};
use toolyard_protocol::{Error, ErrorKind, Id};

/// The most records that are read: many more than servers of one yard.
const MAX_RECORDS: usize = 256;

/// The longest address, in bytes.
const MAX_ADDRESS: u64 = 64;

fn folder(state: &Path) -> PathBuf {
    state.join("servers")
}

/// The record of this server, removed when it is dropped.
pub struct Record {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl Record {
    pub fn write(state: &Path, address: SocketAddr) -> Result<Record, Error> {
        let folder = folder(state);
        remove_dead(&folder);
        write(&folder, address).map_err(|error| {
            let message = format!("the address cannot be recorded in {}: {error}", folder.display());
            Error::new(ErrorKind::Unavailable, message).hint("make the state folder writable")
        })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The addresses of all servers that run with this state folder.
pub fn live(state: &Path) -> Vec<SocketAddr> {
    let records = records(&folder(state));
    let addresses = records.filter(|(_, file)| !is_dead(file)).filter_map(|(_, file)| {
        let mut text = String::new();
        file.take(MAX_ADDRESS).read_to_string(&mut text).ok()?;
        text.parse().ok()
    });
    addresses.collect()
}

fn write(folder: &Path, address: SocketAddr) -> io::Result<Record> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let id = new_id(&SystemClock, &SystemRandom);
    // Locked and complete before it is renamed into view: an unlocked file means a dead server.
    let hidden = folder.join(format!(".{id}"));
    let mut lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&hidden)?;
    let path = folder.join(id.to_string());
    let written = lock.lock().and_then(|()| write!(lock, "{address}"));
    if let Err(error) = written.and_then(|()| std::fs::rename(&hidden, &path)) {
        let _ = std::fs::remove_file(&hidden);
        return Err(error);
    }
    Ok(Record { path, _lock: lock })
}

fn records(folder: &Path) -> impl Iterator<Item = (PathBuf, File)> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(|id| Id::parse(id).is_some()));
    named.take(MAX_RECORDS).filter_map(|entry| {
        let file = private_file::open(&entry.path()).ok()?;
        let is_private = private_file::problem(&file.metadata().ok()?).is_none();
        is_private.then(|| (entry.path(), file))
    })
}

/// A shared lock, so that two processes that ask at once do not take each other for the server.
fn is_dead(file: &File) -> bool {
    !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

fn remove_dead(folder: &Path) {
    for (path, file) in records(folder) {
        if is_dead(&file) {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_of_a_running_server_counts() {
        let state = std::env::temp_dir().join(format!("toolyard-{}", new_id(&SystemClock, &SystemRandom)));
        assert_eq!(live(&state), []);
        let (first, second): (SocketAddr, SocketAddr) =
            ("127.0.0.1:3333".parse().unwrap(), "[::1]:3334".parse().unwrap());
        let record = Record::write(&state, first).unwrap();
        assert_eq!(live(&state), [first]);
        // As after kill -9: the file exists, but it is not locked.
        let dead = folder(&state).join(new_id(&SystemClock, &SystemRandom).to_string());
        std::fs::copy(&record.path, &dead).unwrap();
        assert_eq!(live(&state), [first]);
        let other = Record::write(&state, second).unwrap();
        assert!(!dead.exists(), "the next server removes it");
        drop(record);
        assert_eq!(live(&state), [second]);
        drop(other);
        assert_eq!(std::fs::read_dir(folder(&state)).unwrap().count(), 0);
        std::fs::remove_dir_all(state).unwrap();
    }
}
