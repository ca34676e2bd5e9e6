//! The store of rate limits.

use super::StoreFuture;
use std::time::Duration;
use toolyard_protocol::{Rate, Timestamp};

/// Rate limits that several processes share.
pub trait LimitStore: Send + Sync {
    /// Takes one token from the bucket `key`, or returns how long to wait for one. A bucket starts full and
    /// is refilled evenly. A clock that went backwards neither fills nor empties it: up to one second back
    /// counts as no elapsed time (two processes may read the clock out of order), more as a reset clock.
    fn take(&self, key: String, rate: Rate, now: Timestamp) -> StoreFuture<'_, Option<Duration>>;
}
