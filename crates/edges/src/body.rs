//! The body of a request, within its size and its time.

use crate::patience::within;
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use std::time::Duration;
use toolyard_protocol::{Error, ErrorKind};

/// How long a client may take to send a body.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    TooLarge,
    TooSlow,
}

/// Reading stops at the limit.
pub async fn read(body: Body, limit: usize) -> Result<Bytes, Unread> {
    match within(TIMEOUT, to_bytes(body, limit)).await {
        Some(Ok(body)) => Ok(body),
        Some(Err(_)) => Err(Unread::TooLarge),
        None => Err(Unread::TooSlow),
    }
}

impl Unread {
    pub fn message(self, limit: usize) -> String {
        match self {
            Unread::TooLarge => format!("the request body is over {limit} bytes or did not arrive whole"),
            Unread::TooSlow => format!("the request body did not arrive within {} s", TIMEOUT.as_secs()),
        }
    }

    /// For the routes that answer with our own errors.
    pub fn error(self, limit: usize) -> Error {
        let kind = match self {
            Unread::TooLarge => ErrorKind::InputTooLarge,
            Unread::TooSlow => ErrorKind::Timeout,
        };
        Error::new(kind, self.message(limit))
    }
}
