//! The body of a request, within its size and its time.

use crate::timeouts::with_timeout;
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use std::time::Duration;
use toolyard_protocol::{Error, ErrorKind};

/// How long a client may take to send a body.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    TooLarge,
    TooSlow,
}

/// Reading stops at the limit.
pub async fn read(body: Body, limit: usize) -> Result<Bytes, BodyError> {
    match with_timeout(TIMEOUT, to_bytes(body, limit)).await {
        Some(Ok(body)) => Ok(body),
        Some(Err(_)) => Err(BodyError::TooLarge),
        None => Err(BodyError::TooSlow),
    }
}

impl BodyError {
    pub fn message(self, limit: usize) -> String {
        match self {
            BodyError::TooLarge => format!("the request body is over {limit} bytes or did not arrive whole"),
            BodyError::TooSlow => format!("the request body did not arrive within {} s", TIMEOUT.as_secs()),
        }
    }

    /// For the routes that answer with our own errors.
    pub fn to_error(self, limit: usize) -> Error {
        let kind = match self {
            BodyError::TooLarge => ErrorKind::InputTooLarge,
            BodyError::TooSlow => ErrorKind::Timeout,
        };
        Error::new(kind, self.message(limit))
    }
}
