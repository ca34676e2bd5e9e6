//! SQLite's errors as those of a store.

use crate::stores::StoreError;
use rusqlite::ErrorCode;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full,
            // SQLite reports a full disk as such only when writing pages; a used-up quota or a full disk under the
            // shared memory file are plain I/O errors. The failed call was this thread's last one to set errno.
            Some(ErrorCode::SystemIoFailure) if out_of_space() => StoreError::Full,
            // Whoever set the budget puts the number in.
            Some(ErrorCode::OperationInterrupted) => StoreError::Budget { ms: 0 },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::Broken("another process has held it locked for too long".into())
            }
            _ => StoreError::Broken(error.to_string()),
        }
    }
}

fn out_of_space() -> bool {
    matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}
