//! Errors of the audit log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolyard_protocol::{Error, ErrorKind};

/// An error of the audit log. Cloned for every caller whose record was in the write that failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AuditError {
    #[error("no space for the audit log at {}: {source}", path.display())]
    Full { path: PathBuf, source: Arc<io::Error> },
    #[error("the audit log cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: Arc<io::Error> },
    #[error("the audit log cannot be synced at {}: {source}", path.display())]
    Unsynced { path: PathBuf, source: Arc<io::Error> },
    #[error("the audit log is closed because the server is shutting down")]
    Closed,
    #[error("the audit index {} cannot be used: {source}", path.display())]
    Index { path: PathBuf, source: Arc<rusqlite::Error> },
    #[error("the audit records cannot be exported: {0}")]
    Export(Arc<io::Error>),
}

impl AuditError {
    pub(super) fn io(doing: &'static str, path: &Path, source: io::Error) -> AuditError {
        let path = path.to_path_buf();
        let full = matches!(source.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG));
        let source = Arc::new(source);
        if full { AuditError::Full { path, source } } else { AuditError::Io { doing, path, source } }
    }

    pub(super) fn index(path: &Path, source: rusqlite::Error) -> AuditError {
        AuditError::Index { path: path.to_path_buf(), source: Arc::new(source) }
    }

    fn hint(&self) -> String {
        match self {
            AuditError::Full { path, .. } => {
                let folder = path.parent().unwrap_or(path).display();
                format!("free space on the disk that holds {folder}, or set a shorter [audit] retention")
            }
            AuditError::Io { path, .. } => format!("check that {} can be written", path.display()),
            AuditError::Unsynced { .. } => {
                "check the disk and the kernel's log, then start the server again".to_owned()
            }
            AuditError::Closed => "call again when the server is back".to_owned(),
            AuditError::Index { path, .. } => {
                format!("delete {}; it is rebuilt from the segments", path.display())
            }
            AuditError::Export(_) => "check the destination of the export".to_owned(),
        }
    }
}

impl From<&AuditError> for Error {
    fn from(error: &AuditError) -> Error {
        Error::new(ErrorKind::AuditUnavailable, error.to_string()).hint(error.hint())
    }
}
