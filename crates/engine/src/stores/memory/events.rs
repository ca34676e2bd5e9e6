//! Events in a queue that forgets its oldest.

use super::Memory;
use crate::stores::{EventPage, EventQuery, EventStore, NewEvent, Reply, StoreError, notice};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use toolyard_protocol::Event;

pub struct Events(pub Memory);

pub struct Ring {
    size: u64,
    newest: u64,
    kept: VecDeque<Event>,
    told: watch::Sender<u64>,
}

impl Ring {
    pub fn new(size: u64) -> Ring {
        Ring { size: size.max(1), newest: 0, kept: VecDeque::new(), told: watch::Sender::new(0) }
    }

    pub fn append(&mut self, new: NewEvent) -> u64 {
        let NewEvent { at, kind, subject, data } = new;
        self.newest += 1;
        self.kept.push_back(Event { seq: self.newest, at, kind, subject, data });
        while self.kept.len() as u64 > self.size {
            self.kept.pop_front();
        }
        self.told.send_replace(self.newest);
        self.newest
    }

    fn page(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        let oldest = self.kept.front().map_or(0, |event| event.seq);
        let start = if query.since.is_some() { oldest.saturating_sub(1) } else { self.newest };
        let after = query.after.unwrap_or(start);
        notice::check_cursor(after, oldest, self.newest)?;
        let wanted = |event: &&Event| {
            event.seq > after
                && query.since.is_none_or(|since| event.at >= since)
                && query.subject.as_ref().is_none_or(|subject| event.subject.as_ref() == Some(subject))
                && (query.kinds.is_empty() || query.kinds.contains(&event.kind))
        };
        let events: Vec<Event> = self.kept.iter().filter(wanted).take(query.limit).cloned().collect();
        // A full page ends with its last event; one that is not full has seen everything.
        let cursor = match events.last() {
            _ if events.len() < query.limit => self.newest,
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
    /// Whoever waits on one ring hears nothing of the other.
    fn clone(&self) -> Ring {
        let told = watch::Sender::new(self.newest);
        Ring { size: self.size, newest: self.newest, kept: self.kept.clone(), told }
    }
}

impl EventStore for Events {
    fn append(&self, event: NewEvent) -> Reply<'_, u64> {
        self.0.with(|tables| Ok(tables.events.append(event)))
    }

    fn read(&self, query: EventQuery) -> Reply<'_, EventPage> {
        self.0.with(|tables| tables.events.page(&query))
    }

    fn wait(&self, seq: u64, timeout: Duration) -> Reply<'_, ()> {
        let told = self.0.with(|tables| Ok(tables.events.told.subscribe()));
        Box::pin(async move {
            let mut told = told.await?;
            let waiting = told.wait_for(|&newest| newest > seq);
            // The sender lives as long as the memory, which outlives this: only time can end it otherwise.
            match Instant::now().checked_add(timeout) {
                Some(deadline) => drop(tokio::time::timeout_at(deadline, waiting).await),
                None => drop(waiting.await),
            }
            Ok(())
        })
    }
}
