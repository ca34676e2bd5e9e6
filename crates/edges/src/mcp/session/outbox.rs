//! The messages of one POST in a session, stored so that a client that lost its connection can resume.

use crate::mcp::lock;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Notifications that are stored; beyond that the oldest are dropped. Responses always stay.
const MAX_EVENTS: usize = 256;

/// The default delay before a client reconnects.
const RETRY: Duration = Duration::from_millis(1000);

pub(in crate::mcp) struct Outbox {
    /// Unique in its session; part of every event id.
    pub key: u64,
    state: Mutex<State>,
    wake: Notify,
}

struct State {
    events: VecDeque<Event>,
    next: u64,
    /// Responses that are still missing.
    pending_responses: usize,
    /// Only responses so far: the HTTP response can be plain JSON.
    responses_only: bool,
    /// The reader must disconnect and reconnect after this delay.
    disconnect: Option<Duration>,
    /// When the last response was added.
    finished_at: Option<Instant>,
    /// The newest reader; earlier ones end.
    reader: u64,
}

#[derive(Clone)]
pub(in crate::mcp) struct Event {
    pub number: u64,
    pub message: Bytes,
    response: bool,
}

/// The next item of a reader.
pub(in crate::mcp) enum NextEvent {
    Event(Event),
    /// The stream ends for now; the client reconnects after this delay.
    Disconnect(Duration),
    End,
}

impl Outbox {
    pub fn new(key: u64, pending_responses: usize) -> Outbox {
        let state = State {
            events: VecDeque::new(),
            next: 1,
            pending_responses,
            responses_only: true,
            disconnect: None,
            finished_at: None,
            reader: 0,
        };
        Outbox { key, state: Mutex::new(state), wake: Notify::new() }
    }

    /// Adds a notification or a request to the client.
    pub fn send(&self, message: Vec<u8>) {
        let mut state = lock(&self.state);
        state.responses_only = false;
        state.push(message, false);
        drop(state);
        self.wake.notify_one();
    }

    pub fn respond(&self, message: Vec<u8>) {
        let mut state = lock(&self.state);
        state.push(message, true);
        state.response_done();
        drop(state);
        self.wake.notify_one();
    }

    /// The response of a request that was never started, and so abandoned.
    pub fn push_response(&self, message: Vec<u8>) {
        lock(&self.state).push(message, true);
        self.wake.notify_one();
    }

    /// A cancelled request gets no response.
    pub fn abandon(&self) {
        lock(&self.state).response_done();
        self.wake.notify_one();
    }

    /// Disconnects the reader while the call continues.
    pub fn disconnect_reader(&self, retry: Option<Duration>) {
        let mut state = lock(&self.state);
        state.responses_only = false;
        state.disconnect = Some(retry.unwrap_or(RETRY));
        drop(state);
        self.wake.notify_one();
    }

    /// Waits for all responses; `None` as soon as another message requires a stream.
    pub async fn responses_only(&self) -> Option<Vec<Bytes>> {
        loop {
            {
                let state = lock(&self.state);
                if !state.responses_only {
                    return None;
                }
                if state.pending_responses == 0 {
                    return Some(state.events.iter().map(|event| event.message.clone()).collect());
                }
            }
            self.wake.notified().await;
        }
    }

    /// Registers a reader. The earlier reader ends: a client that resumes has lost its connection.
    pub fn attach(&self) -> u64 {
        let mut state = lock(&self.state);
        state.reader += 1;
        let reader = state.reader;
        drop(state);
        self.wake.notify_waiters();
        reader
    }

    /// The next event after the number `after`.
    pub async fn next(&self, reader: u64, after: u64) -> NextEvent {
        loop {
            // Created before the check, so that no wake-up is missed.
            let woken = self.wake.notified();
            {
                let mut state = lock(&self.state);
                if state.reader != reader {
                    return NextEvent::End;
                }
                if let Some(event) = state.events.iter().find(|event| event.number > after) {
                    return NextEvent::Event(event.clone());
                }
                if state.pending_responses == 0 {
                    return NextEvent::End;
                }
                if let Some(retry) = state.disconnect.take() {
                    return NextEvent::Disconnect(retry);
                }
            }
            woken.await;
        }
    }

    pub fn event_id(&self, number: u64) -> String {
        format!("{}-{number}", self.key)
    }

    pub fn retry() -> Duration {
        RETRY
    }

    /// When the last response was added; `None` while some are missing.
    pub fn finished_at(&self) -> Option<Instant> {
        lock(&self.state).finished_at
    }
}

impl State {
    fn push(&mut self, message: Vec<u8>, response: bool) {
        let number = self.next;
        self.next += 1;
        if self.events.len() >= MAX_EVENTS
            && let Some(oldest) = self.events.iter().position(|event| !event.response)
        {
            self.events.remove(oldest);
        }
        self.events.push_back(Event { number, message: message.into(), response });
    }

    fn response_done(&mut self) {
        self.pending_responses = self.pending_responses.saturating_sub(1);
        if self.pending_responses == 0 {
            self.finished_at = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn responses_alone_are_plain_json_and_other_messages_need_a_stream() {
        let outbox = Outbox::new(1, 1);
        outbox.respond(b"a".to_vec());
        assert_eq!(outbox.responses_only().await.unwrap(), [Bytes::from_static(b"a")]);
        let outbox = Outbox::new(1, 1);
        outbox.send(b"n".to_vec());
        assert!(outbox.responses_only().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_resumes_gets_what_it_missed() {
        let outbox = Outbox::new(3, 1);
        outbox.send(b"one".to_vec());
        outbox.disconnect_reader(None);
        let reader = outbox.attach();
        let NextEvent::Event(event) = outbox.next(reader, 0).await else { panic!("no event") };
        assert_eq!((event.number, outbox.event_id(event.number).as_str()), (1, "3-1"));
        assert!(matches!(outbox.next(reader, 1).await, NextEvent::Disconnect(RETRY)));
        let again = outbox.attach();
        assert!(matches!(outbox.next(reader, 0).await, NextEvent::End));
        outbox.respond(b"two".to_vec());
        assert!(matches!(outbox.next(again, 0).await, NextEvent::Event(event) if event.message == "one"));
        assert!(matches!(outbox.next(again, 1).await, NextEvent::Event(event) if event.message == "two"));
        assert!(matches!(outbox.next(again, 2).await, NextEvent::End));
    }

    #[tokio::test]
    async fn notifications_are_bounded_and_responses_stay() {
        let outbox = Outbox::new(1, 2);
        outbox.respond(b"first".to_vec());
        for _ in 0..MAX_EVENTS * 2 {
            outbox.send(b"n".to_vec());
        }
        let state = lock(&outbox.state);
        assert_eq!(state.events.len(), MAX_EVENTS);
        assert_eq!(state.events[0].message, "first");
    }
}
