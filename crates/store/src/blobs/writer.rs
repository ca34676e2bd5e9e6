//! Stores a stream of any size in constant memory.

use super::store::{PIECE, Store};
use super::temp::Temp;
use super::tree::Builder;
use super::{BlobError, StoredBlob, blocking};
use bytes::{Bytes, BytesMut};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A blob that is being written. Dropping it unfinished discards it.
pub struct BlobWriter {
    /// `None` after a write failed or was dropped before it completed.
    inner: Option<BlockingWriter>,
    /// Buffers small writes: a thread switch for each would cost more than the write.
    buffer: BytesMut,
}

impl BlobWriter {
    pub(super) fn new(store: Arc<Store>) -> BlobWriter {
        BlobWriter { inner: Some(BlockingWriter::new(store)), buffer: BytesMut::new() }
    }

    /// Appends bytes. If the future is dropped before it completes, the blob can no longer be finished.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), BlobError> {
        if self.inner.is_none() {
            return Err(BlobError::Broken);
        }
        if self.buffer.len() + bytes.len() < PIECE {
            self.buffer.extend_from_slice(&bytes);
            return Ok(());
        }
        let before = self.buffer.split().freeze();
        let mut inner = self.inner.take().ok_or(BlobError::Broken)?;
        self.inner = Some(
            blocking(move || {
                inner.write(&before)?;
                inner.write(&bytes)?;
                Ok(inner)
            })
            .await?,
        );
        Ok(())
    }

    /// Durable when this returns.
    pub async fn finish(mut self) -> Result<StoredBlob, BlobError> {
        let mut inner = self.inner.take().ok_or(BlobError::Broken)?;
        let rest = self.buffer.split().freeze();
        blocking(move || {
            inner.write(&rest)?;
            inner.finish()
        })
        .await
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        let Some(mut inner) = self.inner.take() else { return };
        inner.unlink_temps();
        // Freeing the space of a large file takes a while, so it does not run on an async worker thread.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || drop(inner));
        }
    }
}

/// The blocking side: hashes the bytes and writes data and tree to two temporary files.
pub(super) struct BlockingWriter {
    store: Arc<Store>,
    builder: Builder,
    data: Option<Temp>,
    tree: Option<Temp>,
    nodes: Vec<u8>,
}

impl BlockingWriter {
    pub fn new(store: Arc<Store>) -> BlockingWriter {
        BlockingWriter { store, builder: Builder::new(), data: None, tree: None, nodes: Vec::new() }
    }

    /// Appends a whole file, whatever its current position.
    pub fn write_file(&mut self, file: &File) -> Result<(), BlobError> {
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        loop {
            match file.read_at(&mut piece, at) {
                Ok(0) => return Ok(()),
                Ok(got) => {
                    self.write(&piece[..got])?;
                    at += got as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(BlobError::io("read the file to be stored", e)),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        if bytes.is_empty() {
            return Ok(());
        }
        match &mut self.data {
            Some(data) => data.write(bytes)?,
            None => self.data = Some(self.store.write_temp(bytes)?),
        }
        self.store.fault_point("blob.grown")?;
        self.builder.update(bytes, &mut self.nodes);
        if self.nodes.len() >= PIECE { self.write_nodes() } else { Ok(()) }
    }

    pub fn finish(mut self) -> Result<StoredBlob, BlobError> {
        let builder = std::mem::replace(&mut self.builder, Builder::new());
        let (hash, size) = builder.finish(&mut self.nodes);
        if !self.nodes.is_empty() {
            self.write_nodes()?;
        }
        let data = match self.data {
            Some(data) => data,
            None => self.store.write_temp(&[])?,
        };
        let stored = StoredBlob { hash, size };
        self.store.commit_temps(&stored, data, self.tree)?;
        Ok(stored)
    }

    fn write_nodes(&mut self) -> Result<(), BlobError> {
        match &mut self.tree {
            Some(tree) => tree.write(&self.nodes)?,
            None => self.tree = Some(self.store.write_temp(&self.nodes)?),
        }
        self.nodes.clear();
        Ok(())
    }

    fn unlink_temps(&mut self) {
        self.data.iter_mut().chain(&mut self.tree).for_each(Temp::unlink);
    }
}
