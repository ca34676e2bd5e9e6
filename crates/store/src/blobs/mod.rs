//! Bytes of any size under their own BLAKE3 hash: durable before the reply, proven on every read.
//!
//! `docs/blobs.md` says how they lie on disk. All work on files happens on tokio's blocking threads.

mod collect;
mod error;
mod folder;
mod pins;
mod reader;
mod store;
mod temp;
#[cfg(test)]
mod tests;
mod tree;
mod verify;
mod writer;

pub use collect::CollectReport;
pub use error::BlobError;
pub use pins::Pin;
pub use reader::BlobReader;
pub use verify::{Damage, Flaw, Report};
pub use writer::BlobWriter;

use crate::faults::Faults;
use bytes::Bytes;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use toolyard_protocol::{Hash, Timestamp};

/// A folder of blobs. Several processes may use one folder at once.
pub struct Blobs {
    store: Arc<Store>,
}

/// What was stored, and where it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    pub hash: Hash,
    pub size: u64,
}

impl Blobs {
    /// Makes the folder when it is missing and removes what crashed writers left.
    pub fn open(folder: &Path, faults: Arc<dyn Faults>) -> Result<Arc<Blobs>, BlobError> {
        Ok(Arc::new(Blobs { store: Store::open(folder, faults)? }))
    }

    /// Durable when this returns, also when it was there already.
    pub async fn put(&self, bytes: Bytes) -> Result<StoredBlob, BlobError> {
        let store = self.store.clone();
        blocking(move || store.put(&bytes)).await
    }

    /// The whole file from its first byte, wherever its position is.
    pub async fn put_file(&self, file: File) -> Result<StoredBlob, BlobError> {
        let mut inner = writer::BlockingWriter::new(self.store.clone());
        blocking(move || {
            inner.write_file(&file)?;
            inner.finish()
        })
        .await
    }

    pub fn writer(&self) -> BlobWriter {
        BlobWriter::new(self.store.clone())
    }

    /// What the file's length says; a reader proves it.
    pub async fn size(&self, hash: &Hash) -> Result<Option<u64>, BlobError> {
        let (store, hash) = (self.store.clone(), *hash);
        blocking(move || match store.data(&hash) {
            Ok(file) => Ok(Some(file.metadata().map_err(|e| BlobError::io("look at a blob", e))?.len())),
            Err(BlobError::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        })
        .await
    }

    /// The whole blob, refused when it has more than `cap` bytes.
    pub async fn get(&self, hash: &Hash, cap: u64) -> Result<Bytes, BlobError> {
        let (store, hash) = (self.store.clone(), *hash);
        blocking(move || reader::read_whole(&store, &hash, cap)).await
    }

    /// Reads piece by piece, all of it or a range, which must lie within the blob.
    pub async fn reader(&self, hash: &Hash, range: Option<Range<u64>>) -> Result<BlobReader, BlobError> {
        BlobReader::open(self.store.clone(), *hash, range).await
    }

    /// Keeps a blob from being collected by any process while the pin lives. A blob that is there after the pin was
    /// taken stays there.
    pub fn pin(&self, hash: &Hash) -> Pin {
        self.store.pin(hash)
    }

    /// Removes blobs that are not live, not pinned and were stored at least `min_age` before `now`.
    ///
    /// `min_age` must be longer than it takes from storing a blob until `live` knows of it.
    pub async fn collect(
        &self,
        live: &mut (dyn FnMut(&Hash) -> bool + Send),
        min_age: Duration,
        now: Timestamp,
    ) -> Result<CollectReport, BlobError> {
        collect::collect(&self.store, live, min_age, now).await
    }

    /// Reads every blob through and lists what is damaged. Changes nothing.
    pub async fn verify(&self) -> Result<Report, BlobError> {
        verify::verify(&self.store).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| BlobError::Stopped)?
}
