//! Why a store could not do as asked.

use toolyard_protocol::{Error, ErrorKind, Id};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("there is no {what} '{id}'")]
    NotFound { what: &'static str, id: String },
    #[error("{0}")]
    Invalid(String),
    #[error("the disk is full")]
    Full,
    /// A bound of ours, not of the disk.
    #[error("{0}")]
    Bound(String),
    #[error("the query took longer than {ms} ms and was stopped")]
    Budget { ms: u64 },
    /// Events before `oldest` have left the ring.
    #[error("the events after {cursor} are gone; the oldest kept is {oldest}")]
    CursorExpired { cursor: u64, oldest: u64 },
    /// The file is damaged, locked by someone else for too long, or from a newer version.
    #[error("the store cannot be used: {0}")]
    Broken(String),
    /// The store stopped before it could say whether the change was made.
    #[error("the store stopped")]
    Stopped,
}

impl StoreError {
    /// The caller's id is fresh for each new thing; this one is not.
    pub fn id_taken(what: &str, id: Id) -> StoreError {
        StoreError::Invalid(format!("another {what} has the id '{id}' already; use a fresh one"))
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
            StoreError::Budget { .. } => {
                Error::new(kind, message).hint("ask for less: a smaller depth or limit")
            }
            StoreError::CursorExpired { oldest, .. } => {
                Error::new(kind, message).hint(format!("start again from {}", oldest.saturating_sub(1)))
            }
            _ => Error::new(kind, message),
        }
    }
}
