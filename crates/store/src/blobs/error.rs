//! Why a blob could not be stored or read.

use std::io;
use toolyard_protocol::{Error, ErrorKind, Hash};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    #[error("blob {hash} not found")]
    NotFound { hash: Hash },
    /// The content on disk differs from what was stored. Requested bytes before `at` were verified.
    #[error("blob {hash} is damaged on disk at or after byte {at}")]
    Damaged { hash: Hash, at: u64 },
    #[error("blob {hash} has {size} bytes, more than the limit of {cap}")]
    TooLarge { hash: Hash, size: u64, cap: u64 },
    #[error("the range {start} to {end} is outside the blob, which has {size} bytes")]
    Range { start: u64, end: u64, size: u64 },
    #[error("cannot store the blob: the disk is full")]
    Full,
    /// An earlier write failed or was dropped before it completed, so the content is unknown.
    #[error("an earlier write to this blob failed, so it cannot be finished")]
    Broken,
    #[error("the server is shutting down")]
    Stopped,
    /// The operation, the file and the system error.
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
            BlobError::NotFound { .. } => "check the hash; unreferenced blobs are removed after a while",
            BlobError::Damaged { .. } => {
                "store the same content again, which repairs it, or restore the file from a backup"
            }
            BlobError::TooLarge { .. } => "read it in ranges, or stream it",
            BlobError::Range { .. } => "request a range that ends within the blob",
            BlobError::Full => "free some space; blobs stored earlier are intact",
            BlobError::Broken => "start again from the first byte",
            BlobError::Stopped => "call again when the server is back",
            BlobError::Io(_) => "check the disk and the permissions of the state folder",
        }
    }
}

impl From<BlobError> for Error {
    fn from(error: BlobError) -> Error {
        Error::new(error.kind(), error.to_string()).hint(error.hint())
    }
}
