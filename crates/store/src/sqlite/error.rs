//! Maps SQLite errors to store errors.

use rusqlite::ErrorCode;
use toolyard_engine::stores::StoreError;

/// Error of a write or a query. Converts from `StoreError` and SQLite errors; callers get the `StoreError`.
#[derive(Debug)]
pub struct SqliteError(pub StoreError);

impl From<StoreError> for SqliteError {
    fn from(error: StoreError) -> SqliteError {
        SqliteError(error)
    }
}

impl From<SqliteError> for StoreError {
    fn from(error: SqliteError) -> StoreError {
        error.0
    }
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> SqliteError {
        SqliteError(match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full,
            // SQLite reports a full disk as such only when writing pages; a used-up quota or a full disk under the
            // shared memory file are plain I/O errors. The failed call was this thread's last one to set errno.
            Some(ErrorCode::SystemIoFailure) if out_of_space() => StoreError::Full,
            // The reader fills in the budget.
            Some(ErrorCode::OperationInterrupted) => StoreError::Budget { ms: 0 },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::Broken("another process held the database lock for too long".into())
            }
            _ => StoreError::Broken(error.to_string()),
        })
    }
}

fn out_of_space() -> bool {
    matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}
