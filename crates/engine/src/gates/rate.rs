//! Gate: the tool's rate limit.

use crate::registry::Entry;
use std::time::Instant;
use toolyard_protocol::Error;

pub fn take(entry: &Entry, now: Instant) -> Result<(), Error> {
    entry.limiter.take_token(now)
}
