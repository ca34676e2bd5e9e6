//! Rate limits that several processes share.

use super::StoreFuture;
use std::time::Duration;
use toolyard_protocol::{Rate, Timestamp};

/// Rate limits that several processes share.
pub trait LimitStore: Send + Sync {
    /// Takes one token of the bucket `key`; `Some` is how long to wait when there is none. A bucket is full at first
    /// and fills evenly. A clock that went backwards neither fills nor empties it: up to a second back counts as no
    /// time at all (two processes that read the clock in turn), more as a clock that was set and goes on from there.
    fn take(&self, key: String, rate: Rate, now: Timestamp) -> StoreFuture<'_, Option<Duration>>;
}
