//! Content-addressed storage by BLAKE3 hash: durable before the reply, verified on every read.
//!
//! `docs/blobs.md` describes the layout on disk. All file access runs on tokio's blocking threads.

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

/// Hash and size of a stored blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    pub hash: Hash,
    pub size: u64,
}

impl Blobs {
    /// Creates the folder if it is missing and removes temporary files of crashed writers.
    pub fn open(folder: &Path, faults: Arc<dyn Faults>) -> Result<Arc<Blobs>, BlobError> {
        Ok(Arc::new(Blobs { store: Store::open(folder, faults)? }))
    }

    /// Durable when this returns, also if the blob existed before.
    pub async fn put(&self, bytes: Bytes) -> Result<StoredBlob, BlobError> {
        let store = self.store.clone();
        blocking(move || store.put(&bytes)).await
    }

    /// Stores the whole file, whatever its current position.
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

    /// The length of the file; only a reader verifies it.
    pub async fn size(&self, hash: &Hash) -> Result<Option<u64>, BlobError> {
        let (store, hash) = (self.store.clone(), *hash);
        blocking(move || match store.data(&hash) {
            Ok(file) => Ok(Some(file.metadata().map_err(|e| BlobError::io("stat a blob", e))?.len())),
            Err(BlobError::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        })
        .await
    }

    /// The whole blob; an error if it has more than `cap` bytes.
    pub async fn get(&self, hash: &Hash, cap: u64) -> Result<Bytes, BlobError> {
        let (store, hash) = (self.store.clone(), *hash);
        blocking(move || reader::read_whole(&store, &hash, cap)).await
    }

    /// Streams the blob or a range, which must lie within the blob.
    pub async fn reader(&self, hash: &Hash, range: Option<Range<u64>>) -> Result<BlobReader, BlobError> {
        BlobReader::open(self.store.clone(), *hash, range).await
    }

    /// Protects a blob from collection by any process until the pin is dropped. A blob that exists once the
    /// pin is taken continues to exist.
    pub fn pin(&self, hash: &Hash) -> Pin {
        self.store.pin(hash)
    }

    /// Removes blobs that are not live, not pinned and were stored at least `min_age` before `now`.
    ///
    /// `min_age` must exceed the time from storing a blob until `live` knows of it.
    pub async fn collect(
        &self,
        live: &mut (dyn FnMut(&Hash) -> bool + Send),
        min_age: Duration,
        now: Timestamp,
    ) -> Result<CollectReport, BlobError> {
        collect::collect(&self.store, live, min_age, now).await
    }

    /// Verifies every blob and lists what is damaged. Changes nothing.
    pub async fn verify(&self) -> Result<Report, BlobError> {
        verify::verify(&self.store).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| BlobError::Stopped)?
}
