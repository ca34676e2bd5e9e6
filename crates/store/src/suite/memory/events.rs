//! Events in a bounded queue that drops the oldest.

use super::Memory;
use crate::job_rules;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use toolyard_engine::stores::{EventPage, EventQuery, EventStore, NewEvent, StoreError, StoreFuture};
use toolyard_protocol::Event;

pub struct Events(pub Memory);

pub struct Ring {
    size: u64,
    newest: u64,
    buffer: VecDeque<Event>,
    newest_seq: watch::Sender<u64>,
}

impl Ring {
    pub fn new(size: u64) -> Ring {
        Ring { size: size.max(1), newest: 0, buffer: VecDeque::new(), newest_seq: watch::Sender::new(0) }
    }

    pub fn append(&mut self, new: NewEvent) -> u64 {
        let NewEvent { at, kind, subject, data } = new;
        self.newest += 1;
        self.buffer.push_back(Event { seq: self.newest, at, kind, subject, data });
        while self.buffer.len() as u64 > self.size {
            self.buffer.pop_front();
        }
        self.newest_seq.send_replace(self.newest);
        self.newest
    }

    fn page(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        let oldest = self.buffer.front().map_or(0, |event| event.seq);
        let start = if query.since.is_some() { oldest.saturating_sub(1) } else { self.newest };
        let after = query.after.unwrap_or(start);
        job_rules::check_cursor(after, oldest, self.newest)?;
        let wanted = |event: &&Event| {
            event.seq > after
                && query.since.is_none_or(|since| event.at >= since)
                && query.subject.as_ref().is_none_or(|subject| event.subject.as_ref() == Some(subject))
                && (query.kinds.is_empty() || query.kinds.contains(&event.kind))
        };
        let (mut events, mut bytes, mut is_full): (Vec<Event>, _, _) = (Vec::new(), 0, query.limit == 0);
        for event in self.buffer.iter().filter(wanted) {
            is_full = events.len() == query.limit || !job_rules::fits_on_page(bytes, event.data.len());
            if is_full {
                break;
            }
            bytes += event.data.len();
            events.push(event.clone());
        }
        is_full |= events.len() == query.limit;
        // A full page ends at its last event, any other at the newest event.
        let cursor = match events.last() {
            _ if !is_full => self.newest,
            Some(last) => last.seq,
            None => after,
        };
        Ok(EventPage { events, cursor, has_more: cursor < self.newest, oldest, newest: self.newest })
    }
}

impl Default for Ring {
    fn default() -> Ring {
        Ring::new(16_384)
    }
}

impl Clone for Ring {
    /// Waiters of one ring are not notified by the other.
    fn clone(&self) -> Ring {
        let newest_seq = watch::Sender::new(self.newest);
        Ring { size: self.size, newest: self.newest, buffer: self.buffer.clone(), newest_seq }
    }
}

impl EventStore for Events {
    fn append(&self, events: Vec<NewEvent>) -> StoreFuture<'_, u64> {
        self.0.with(|tables| Ok(events.into_iter().fold(0, |_, event| tables.events.append(event))))
    }

    fn read(&self, query: EventQuery) -> StoreFuture<'_, EventPage> {
        self.0.with(|tables| tables.events.page(&query))
    }

    fn wait(&self, seq: u64, timeout: Duration) -> StoreFuture<'_, ()> {
        let newest_seq = self.0.with(|tables| Ok(tables.events.newest_seq.subscribe()));
        Box::pin(async move {
            let mut newest_seq = newest_seq.await?;
            let waiting = newest_seq.wait_for(|&newest| newest > seq);
            // The sender outlives this future, so the wait ends with an event or at the deadline.
            match Instant::now().checked_add(timeout) {
                Some(deadline) => drop(tokio::time::timeout_at(deadline, waiting).await),
                None => drop(waiting.await),
            }
            Ok(())
        })
    }
}
