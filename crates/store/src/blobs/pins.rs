//! Pins: file locks that protect blobs from collection by any process.
//!
//! A pin is a read lock on one byte of the file `pins`, at an offset derived from the hash; the collector
//! needs the write lock on it. The file stays empty. The kernel releases the locks of a dead process.

use super::BlobError;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolyard_protocol::Hash;

/// Until it is dropped, no process collects the blob. It may be taken before the blob exists.
#[must_use = "dropping a pin releases it"]
pub struct Pin {
    pins: Arc<Pins>,
    offset: i64,
}

/// The pins of one opened store.
pub(super) struct Pins {
    file: File,
    /// Pins per offset, not per hash: two hashes may share one, which is locked until the last is released.
    held: Mutex<HashMap<i64, usize>>,
}

impl Pins {
    /// Fails if the file system does not support locks, because pins would have no effect.
    pub fn new(file: File) -> Result<Arc<Pins>, BlobError> {
        let probe = set(&file, libc::F_RDLCK, 0, true).and_then(|()| set(&file, libc::F_UNLCK, 0, true));
        probe.map_err(|e| BlobError::io("lock the file pins", e))?;
        Ok(Arc::new(Pins { file, held: Mutex::default() }))
    }

    pub fn pin(self: &Arc<Pins>, hash: &Hash) -> Pin {
        let offset = offset(hash);
        let mut held = self.held();
        let count = held.entry(offset).or_default();
        if *count == 0 {
            // Waits at most while a collector moves this one blob. After the probe in `new` it can fail only
            // for lack of kernel memory, and then there is nothing better to do than to continue unpinned.
            let _ = set(&self.file, libc::F_RDLCK, offset, true);
        }
        *count += 1;
        Pin { pins: self.clone(), offset }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<i64, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut held = self.pins.held();
        if let Some(count) = held.get_mut(&self.offset) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.offset);
                let _ = set(&self.pins.file, libc::F_UNLCK, self.offset, true);
            }
        }
    }
}

/// The collector's side. Needs its own open file: locks of one open file never exclude each other.
pub(super) struct CollectorLocks(pub File);

impl CollectorLocks {
    /// Runs `work` while nobody can pin the blob; `None` if it is pinned.
    pub fn with_exclusive<T>(&self, hash: &Hash, work: impl FnOnce() -> T) -> io::Result<Option<T>> {
        match set(&self.0, libc::F_WRLCK, offset(hash), false) {
            Ok(()) => {}
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => return Ok(None),
            Err(e) => return Err(e),
        }
        let result = work();
        set(&self.0, libc::F_UNLCK, offset(hash), false)?;
        Ok(Some(result))
    }
}

/// 62 bits of the hash, which are always a valid file offset.
fn offset(hash: &Hash) -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_bytes()[..8]);
    (u64::from_be_bytes(bytes) >> 2) as i64
}

fn set(file: &File, kind: libc::c_int, offset: i64, wait: bool) -> io::Result<()> {
    let (l_type, l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    let lock = libc::flock { l_type, l_whence, l_start: offset, l_len: 1, l_pid: 0 };
    let command = if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
    loop {
        // SAFETY: an open descriptor and a structure that outlives the call, which only reads it.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
