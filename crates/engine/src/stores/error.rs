//! The errors of the stores.

use toolyard_protocol::{Error, ErrorKind, Id};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("there is no {what} '{id}'")]
    NotFound { what: &'static str, id: String },
    #[error("{0}")]
    Invalid(String),
    #[error("the disk is full")]
    Full,
    /// A configured limit, not the disk's.
    #[error("{0}")]
    Bound(String),
    #[error("the query took longer than {ms} ms and was stopped")]
    Budget { ms: u64 },
    /// Events before `oldest` were dropped from the ring buffer.
    #[error("the events after {cursor} have expired; the oldest available is {oldest}")]
    CursorExpired { cursor: u64, oldest: u64 },
    /// The file is damaged, locked by another process for too long, or from a newer version.
    #[error("the store cannot be used: {0}")]
    Broken(String),
    /// The store stopped before it confirmed the change.
    #[error("the store stopped")]
    Stopped,
}

impl StoreError {
    /// Callers must choose a new id for each object.
    pub fn id_taken(what: &str, id: Id) -> StoreError {
        StoreError::Invalid(format!("the id '{id}' is already used by another {what}; use a new one"))
    }

    pub fn node_not_found(id: &str) -> StoreError {
        StoreError::NotFound { what: "identity", id: id.to_owned() }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        let kind = match &error {
            StoreError::NotFound { .. } => ErrorKind::ResourceNotFound,
            StoreError::Invalid(_) | StoreError::CursorExpired { .. } => ErrorKind::InvalidInput,
            StoreError::Budget { .. } => ErrorKind::Timeout,
            StoreError::Bound(_) => ErrorKind::Busy,
            StoreError::Full | StoreError::Broken(_) | StoreError::Stopped => ErrorKind::Unavailable,
        };
        let message = error.to_string();
        match error {
            StoreError::Full => Error::new(kind, message).hint("free some space; nothing was lost"),
            StoreError::Budget { .. } => Error::new(kind, message).hint("reduce the depth or the limit"),
            StoreError::CursorExpired { oldest, .. } => {
                Error::new(kind, message).hint(format!("start again from {}", oldest.saturating_sub(1)))
            }
            _ => Error::new(kind, message),
        }
    }
}
