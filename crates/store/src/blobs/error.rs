//! Why a blob could not be stored or read.

use std::io;
use toolyard_protocol::{Error, ErrorKind, Hash};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    #[error("there is no blob {hash}")]
    NotFound { hash: Hash },
    /// What lies on disk is not what was stored. Everything before `at` was proven, if it was asked for.
    #[error("the blob {hash} is damaged on disk at byte {at} or after")]
    Damaged { hash: Hash, at: u64 },
    #[error("the blob {hash} has {size} bytes, more than the {cap} that are allowed here")]
    TooLarge { hash: Hash, size: u64, cap: u64 },
    #[error("bytes {start} to {end} are not within the blob, which has {size} bytes")]
    Range { start: u64, end: u64, size: u64 },
    #[error("no room for blobs: the disk is full")]
    Full,
    /// An earlier write failed or was dropped half-way, so what the blob would be is not known.
    #[error("an earlier part of this blob was not written, so it cannot be finished")]
    Broken,
    #[error("the server is shutting down")]
    Stopped,
    /// Which file and what the system said.
    #[error("the blob store cannot {0}")]
    Io(String),
}

impl BlobError {
    pub(super) fn io(doing: &str, error: io::Error) -> BlobError {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => BlobError::Full,
            _ => BlobError::Io(format!("{doing}: {error}")),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            BlobError::NotFound { .. } => ErrorKind::ResourceNotFound,
            BlobError::Damaged { .. } => ErrorKind::Internal,
            BlobError::TooLarge { .. } => ErrorKind::OutputTooLarge,
            BlobError::Range { .. } => ErrorKind::InvalidInput,
            BlobError::Full | BlobError::Broken | BlobError::Stopped | BlobError::Io(_) => {
                ErrorKind::Unavailable
            }
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            BlobError::NotFound { .. } => {
                "check the hash; blobs that nothing names are removed after a while"
            }
            BlobError::Damaged { .. } => {
                "store the same content again, which repairs it, or restore the file from a backup"
            }
            BlobError::TooLarge { .. } => "read it in ranges, or stream it",
            BlobError::Range { .. } => "ask for a range that ends within the blob",
            BlobError::Full => "free some space; what was stored before is intact",
            BlobError::Broken => "start again from the first byte",
            BlobError::Stopped => "call again when the server is back",
            BlobError::Io(_) => "check the disk and the modes of the state folder",
        }
    }
}

impl From<BlobError> for Error {
    fn from(error: BlobError) -> Error {
        Error::new(error.kind(), error.to_string()).hint(error.hint())
    }
}
