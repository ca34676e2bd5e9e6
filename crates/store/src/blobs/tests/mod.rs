//! The blob store on real files; crashes and full disks are tested with real processes.

mod concurrent;
mod content;
mod crash;
mod damage;
mod full;
mod large;

use super::tree::GROUP;
use super::*;
use crate::faults::NoFaults;
use std::path::PathBuf;
use toolyard_engine::clock::{SystemClock, SystemRandom, new_id};

const G: usize = GROUP as usize;

/// A temporary folder, removed on drop.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> TempDir {
        let id = new_id(&SystemClock, &SystemRandom);
        let path = std::env::temp_dir().join(format!("toolyard-blobs-{id}"));
        std::fs::create_dir(&path).unwrap();
        TempDir(path)
    }

    /// On an in-memory file system, if there is one.
    fn in_memory() -> TempDir {
        let id = new_id(&SystemClock, &SystemRandom);
        let path = Path::new("/dev/shm").join(format!("toolyard-blobs-{id}"));
        if std::fs::create_dir(&path).is_ok() { TempDir(path) } else { TempDir::new() }
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn blobs(&self) -> Arc<Blobs> {
        Blobs::open(&self.0.join("blobs"), Arc::new(NoFaults)).unwrap()
    }

    /// The data file of a blob, or with `tree` its tree.
    fn file(&self, hash: &Hash, suffix: &str) -> PathBuf {
        let hex = hash.hex();
        self.0.join("blobs").join(&hex[..2]).join(format!("{}.{suffix}", &hex[2..]))
    }

    fn temps(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.0.join("blobs/tmp")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Pseudo-random bytes; another seed gives others.
fn sample(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

fn hash_of(bytes: &[u8]) -> Hash {
    Hash::from_bytes(blake3::hash(bytes).into())
}

/// Everything a reader returns, or the error it ends with.
async fn read_all(blobs: &Blobs, hash: &Hash, range: Option<Range<u64>>) -> Result<Vec<u8>, BlobError> {
    let mut reader = blobs.reader(hash, range).await?;
    let mut out = Vec::new();
    while let Some(piece) = reader.next().await {
        let piece = piece?;
        assert!(!piece.is_empty() && piece.len() <= 256 * 1024, "a piece of {} bytes", piece.len());
        out.extend_from_slice(&piece);
    }
    assert_eq!(reader.left(), 0);
    Ok(out)
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

/// A command that runs only the helper `test` of this test binary.
fn helper(test: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", test]);
    command
}
