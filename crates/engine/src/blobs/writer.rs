//! Storing a stream of any size in constant memory.

use super::store::{PIECE, Store};
use super::temp::Temp;
use super::tree::Builder;
use super::{BlobError, Stored, blocking};
use bytes::{Bytes, BytesMut};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A blob that is being written. Dropping it unfinished leaves nothing.
pub struct BlobWriter {
    /// `None` once a write failed or was dropped half-way.
    intake: Option<Intake>,
    /// Small writes, gathered: a trip to another thread for each would cost more than the write.
    gathered: BytesMut,
}

impl BlobWriter {
    pub(super) fn new(store: Arc<Store>) -> BlobWriter {
        BlobWriter { intake: Some(Intake::new(store)), gathered: BytesMut::new() }
    }

    /// Takes the next bytes. When the future is dropped before it is done, the blob cannot be finished any more.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), BlobError> {
        if self.intake.is_none() {
            return Err(BlobError::Broken);
        }
        if self.gathered.len() + bytes.len() < PIECE {
            self.gathered.extend_from_slice(&bytes);
            return Ok(());
        }
        let before = self.gathered.split().freeze();
        let mut intake = self.intake.take().ok_or(BlobError::Broken)?;
        self.intake = Some(
            blocking(move || {
                intake.take(&before)?;
                intake.take(&bytes)?;
                Ok(intake)
            })
            .await?,
        );
        Ok(())
    }

    /// Durable when this returns.
    pub async fn finish(mut self) -> Result<Stored, BlobError> {
        let mut intake = self.intake.take().ok_or(BlobError::Broken)?;
        let rest = self.gathered.split().freeze();
        blocking(move || {
            intake.take(&rest)?;
            intake.finish()
        })
        .await
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        let Some(mut intake) = self.intake.take() else { return };
        intake.forget_names();
        // Giving back the room of a large file takes a while; not on a thread that serves calls.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || drop(intake));
        }
    }
}

/// The blocking side: hashes and writes what comes, the data into one file and its tree into another.
pub(super) struct Intake {
    store: Arc<Store>,
    builder: Builder,
    data: Option<Temp>,
    tree: Option<Temp>,
    nodes: Vec<u8>,
}

impl Intake {
    pub fn new(store: Arc<Store>) -> Intake {
        Intake { store, builder: Builder::new(), data: None, tree: None, nodes: Vec::new() }
    }

    /// Everything in a file, wherever its position is.
    pub fn take_file(&mut self, file: &File) -> Result<(), BlobError> {
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        loop {
            match file.read_at(&mut piece, at) {
                Ok(0) => return Ok(()),
                Ok(got) => {
                    self.take(&piece[..got])?;
                    at += got as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(BlobError::io("read the file to be stored", e)),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        if bytes.is_empty() {
            return Ok(());
        }
        match &mut self.data {
            Some(data) => data.write(bytes)?,
            None => self.data = Some(self.store.filled(bytes)?),
        }
        self.store.pass("blob.grown")?;
        self.builder.update(bytes, &mut self.nodes);
        if self.nodes.len() >= PIECE { self.write_nodes() } else { Ok(()) }
    }

    pub fn finish(mut self) -> Result<Stored, BlobError> {
        let builder = std::mem::replace(&mut self.builder, Builder::new());
        let (hash, size) = builder.finish(&mut self.nodes);
        if !self.nodes.is_empty() {
            self.write_nodes()?;
        }
        let data = match self.data {
            Some(data) => data,
            None => self.store.filled(&[])?,
        };
        let stored = Stored { hash, size };
        self.store.adopt(&stored, data, self.tree)?;
        Ok(stored)
    }

    fn write_nodes(&mut self) -> Result<(), BlobError> {
        match &mut self.tree {
            Some(tree) => tree.write(&self.nodes)?,
            None => self.tree = Some(self.store.filled(&self.nodes)?),
        }
        self.nodes.clear();
        Ok(())
    }

    fn forget_names(&mut self) {
        self.data.iter_mut().chain(&mut self.tree).for_each(Temp::forget_name);
    }
}
