//! The log of events: numbered, bounded, readable from a cursor.

use super::StoreFuture;
use std::time::Duration;
use toolyard_protocol::{Event, Payload, Timestamp};

pub trait EventStore: Send + Sync {
    /// Appends and gives the number. Beyond the ring's size the oldest leave.
    fn append(&self, event: NewEvent) -> StoreFuture<'_, u64>;

    /// Events after the cursor, oldest first. `StoreError::CursorExpired` when some of them have left the ring;
    /// a cursor beyond the newest event is `StoreError::Invalid`.
    fn read(&self, query: EventQuery) -> StoreFuture<'_, EventPage>;

    /// Waits until there is an event after `seq`, of this process or another; at most `timeout`.
    fn wait(&self, seq: u64, timeout: Duration) -> StoreFuture<'_, ()>;
}

#[derive(Clone, Debug)]
pub struct NewEvent {
    pub at: Timestamp,
    pub kind: String,
    pub subject: Option<String>,
    pub data: Payload,
}

#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    /// The last number seen. `None` starts with what is new from now on (an empty page with the cursor), or, with
    /// `since`, with the oldest that is kept.
    pub after: Option<u64>,
    /// Only events from this time on.
    pub since: Option<Timestamp>,
    /// Empty means every kind.
    pub kinds: Vec<String>,
    pub subject: Option<String>,
    pub limit: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventPage {
    pub events: Vec<Event>,
    /// Give this as `after` next time: the last event looked at, matching or not.
    pub cursor: u64,
    /// There are events after the cursor.
    pub has_more: bool,
    /// The ring now: oldest and newest number, both 0 when it is empty.
    pub oldest: u64,
    pub newest: u64,
}
