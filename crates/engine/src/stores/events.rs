//! The event log: a numbered ring buffer, readable from a cursor.

use super::StoreFuture;
use std::time::Duration;
use toolyard_protocol::{Event, Payload, Timestamp};

pub trait EventStore: Send + Sync {
    /// Appends events in this order, all or none, and returns the number of the newest. When the ring is full,
    /// the oldest are dropped.
    fn append(&self, events: Vec<NewEvent>) -> StoreFuture<'_, u64>;

    /// Events after the cursor, oldest first; a page ends early when its data are more than about a megabyte. `StoreError::CursorExpired` when some of them were dropped;
    /// a cursor beyond the newest event is `StoreError::Invalid`.
    fn read(&self, query: EventQuery) -> StoreFuture<'_, EventPage>;

    /// Waits for an event after `seq`, from this process or another; at most `timeout`.
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
    /// The last number seen. `None` starts after the newest event (an empty page with the cursor), or, with
    /// `since`, with the oldest available.
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
    /// Pass this as `after` next time: the last event examined, matching or not.
    pub cursor: u64,
    /// There are events after the cursor.
    pub has_more: bool,
    /// The oldest and newest number in the ring, both 0 when it is empty.
    pub oldest: u64,
    pub newest: u64,
}
