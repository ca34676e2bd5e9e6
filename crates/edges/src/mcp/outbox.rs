//! The messages of one POST in a session, kept so that a client that lost its connection can come back for them.

use super::lock;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Notifications that are kept; beyond that the oldest are gone for whoever comes back. Responses always stay.
const MAX_KEPT: usize = 256;

/// When to come back unless the tool says otherwise.
const RETRY: Duration = Duration::from_millis(1000);

pub(super) struct Outbox {
    /// Unique in its session; part of every event id.
    pub key: u64,
    state: Mutex<State>,
    wake: Notify,
}

struct State {
    events: VecDeque<Event>,
    next: u64,
    /// Responses still to come.
    due: usize,
    /// Responses only so far: the answer can be plain JSON.
    plain: bool,
    /// The reader is to leave and come back later.
    leave: Option<Duration>,
    /// Since when nothing more comes.
    over: Option<Instant>,
    /// The newest reader; those before it leave.
    reader: u64,
}

#[derive(Clone)]
pub(super) struct Event {
    pub number: u64,
    pub message: Bytes,
    response: bool,
}

/// What a reader finds.
pub(super) enum Found {
    Event(Event),
    /// The stream ends here for now; come back after this long.
    Leave(Duration),
    End,
}

impl Outbox {
    pub fn new(key: u64, due: usize) -> Outbox {
        let state =
            State { events: VecDeque::new(), next: 1, due, plain: true, leave: None, over: None, reader: 0 };
        Outbox { key, state: Mutex::new(state), wake: Notify::new() }
    }

    /// A notification, or a request of ours.
    pub fn say(&self, message: Vec<u8>) {
        let mut state = lock(&self.state);
        state.plain = false;
        state.push(message, false);
        drop(state);
        self.wake.notify_one();
    }

    pub fn answer(&self, message: Vec<u8>) {
        let mut state = lock(&self.state);
        state.push(message, true);
        state.settle();
        drop(state);
        self.wake.notify_one();
    }

    /// An answer in place of one that was abandoned.
    pub fn add(&self, message: Vec<u8>) {
        lock(&self.state).push(message, true);
        self.wake.notify_one();
    }

    /// A request that was cancelled gets no answer.
    pub fn abandon(&self) {
        lock(&self.state).settle();
        self.wake.notify_one();
    }

    /// Sends the reader away while the work goes on.
    pub fn leave(&self, retry: Option<Duration>) {
        let mut state = lock(&self.state);
        state.plain = false;
        state.leave = Some(retry.unwrap_or(RETRY));
        drop(state);
        self.wake.notify_one();
    }

    /// Waits until it is clear how to answer: the responses alone, or `None` when it must be a stream.
    pub async fn plain(&self) -> Option<Vec<Bytes>> {
        loop {
            {
                let state = lock(&self.state);
                if !state.plain {
                    return None;
                }
                if state.due == 0 {
                    return Some(state.events.iter().map(|event| event.message.clone()).collect());
                }
            }
            self.wake.notified().await;
        }
    }

    /// A reader's number. Whoever read before leaves: a client that comes back has lost that connection.
    pub fn attach(&self) -> u64 {
        let mut state = lock(&self.state);
        state.reader += 1;
        let reader = state.reader;
        drop(state);
        self.wake.notify_waiters();
        reader
    }

    /// The next event after that number.
    pub async fn next(&self, reader: u64, after: u64) -> Found {
        loop {
            // Made before looking, so that no message falls in between.
            let woken = self.wake.notified();
            {
                let mut state = lock(&self.state);
                if state.reader != reader {
                    return Found::End;
                }
                if let Some(event) = state.events.iter().find(|event| event.number > after) {
                    return Found::Event(event.clone());
                }
                if state.due == 0 {
                    return Found::End;
                }
                if let Some(retry) = state.leave.take() {
                    return Found::Leave(retry);
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

    /// How long nothing more has come, if nothing more comes.
    pub fn over_since(&self) -> Option<Instant> {
        lock(&self.state).over
    }
}

impl State {
    fn push(&mut self, message: Vec<u8>, response: bool) {
        let number = self.next;
        self.next += 1;
        if self.events.len() >= MAX_KEPT
            && let Some(oldest) = self.events.iter().position(|event| !event.response)
        {
            self.events.remove(oldest);
        }
        self.events.push_back(Event { number, message: message.into(), response });
    }

    fn settle(&mut self) {
        self.due = self.due.saturating_sub(1);
        if self.due == 0 {
            self.over = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_alone_is_plain_and_anything_else_makes_a_stream() {
        let outbox = Outbox::new(1, 1);
        outbox.answer(b"a".to_vec());
        assert_eq!(outbox.plain().await.unwrap(), [Bytes::from_static(b"a")]);
        let outbox = Outbox::new(1, 1);
        outbox.say(b"n".to_vec());
        assert!(outbox.plain().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_comes_back_finds_what_it_missed() {
        let outbox = Outbox::new(3, 1);
        outbox.say(b"one".to_vec());
        outbox.leave(None);
        let reader = outbox.attach();
        let Found::Event(event) = outbox.next(reader, 0).await else { panic!("no event") };
        assert_eq!((event.number, outbox.event_id(event.number).as_str()), (1, "3-1"));
        assert!(matches!(outbox.next(reader, 1).await, Found::Leave(RETRY)));
        let again = outbox.attach();
        assert!(matches!(outbox.next(reader, 0).await, Found::End));
        outbox.answer(b"two".to_vec());
        assert!(matches!(outbox.next(again, 0).await, Found::Event(event) if event.message == "one"));
        assert!(matches!(outbox.next(again, 1).await, Found::Event(event) if event.message == "two"));
        assert!(matches!(outbox.next(again, 2).await, Found::End));
    }

    #[tokio::test]
    async fn notifications_are_bounded_and_responses_stay() {
        let outbox = Outbox::new(1, 2);
        outbox.answer(b"first".to_vec());
        for _ in 0..MAX_KEPT * 2 {
            outbox.say(b"n".to_vec());
        }
        let state = lock(&outbox.state);
        assert_eq!(state.events.len(), MAX_KEPT);
        assert_eq!(state.events[0].message, "first");
    }
}
