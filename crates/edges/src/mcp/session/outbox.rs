//! The messages of one POST in a session, stored so that a client that lost its connection can resume.

use crate::buffers::{Buffers, Held, Holder, Share, Space};
use crate::connection_limits::Connection;
use crate::mcp::lock;
use crate::mcp::messages::{Bounds, Class, Entry, Messages};
use bytes::Bytes;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tracing::warn;

/// The default delay before a client reconnects.
const RETRY: Duration = Duration::from_millis(1000);

pub(in crate::mcp) struct Outbox {
    /// Unique in its session; part of every event id.
    pub key: u64,
    bounds: Bounds,
    buffers: Arc<Buffers>,
    /// Bytes of all streams of the session.
    session_bytes: Arc<AtomicUsize>,
    state: Mutex<State>,
    wake: Notify,
    /// The reader has gone.
    left: Notify,
}

struct State {
    messages: Messages,
    /// Responses that are still missing.
    pending_responses: usize,
    /// Set when the messages become a stream. Responses alone are plain JSON, which is counted as it is sent.
    share: Option<Share>,
    /// The bytes that are counted so far.
    counted: usize,
    /// Space for responses until they are counted: as a stream, or by the connection that sends them.
    spaces: Vec<Space>,
    /// The reader must disconnect and reconnect after this delay.
    disconnect: Option<Duration>,
    /// When the last response was added.
    finished_at: Option<Instant>,
    /// The newest reader; earlier ones end.
    reader: u64,
    /// The connection of the newest reader, while it reads.
    connection: Option<Arc<Connection>>,
    /// When the reader last took something.
    progress: Instant,
    /// The messages were dropped to make room.
    released: bool,
}

/// The next item of a reader.
pub(in crate::mcp) enum NextEvent {
    Event(Entry),
    /// The stream ends for now; the client reconnects after this delay.
    Disconnect(Duration),
    End,
}

impl Outbox {
    pub fn new(
        key: u64,
        pending_responses: usize,
        bounds: Bounds,
        buffers: &Arc<Buffers>,
        session_bytes: &Arc<AtomicUsize>,
    ) -> Arc<Outbox> {
        let state = State {
            messages: Messages::default(),
            pending_responses,
            share: None,
            counted: 0,
            spaces: Vec::new(),
            disconnect: None,
            finished_at: None,
            reader: 0,
            connection: None,
            progress: Instant::now(),
            released: false,
        };
        let (buffers, session_bytes) = (buffers.clone(), session_bytes.clone());
        Arc::new(Outbox {
            key,
            bounds,
            buffers,
            session_bytes,
            state: Mutex::new(state),
            wake: Notify::new(),
            left: Notify::new(),
        })
    }

    /// Adds a notification or a question, which need a stream.
    pub fn send(self: &Arc<Self>, class: Class, message: Vec<u8>) {
        self.change(|state| {
            self.become_stream(state);
            let dropped = state.messages.dropped();
            state.messages.push(class, message, self.bounds);
            if dropped == 0 && state.messages.dropped() > 0 {
                warn!(target: "toolyard::mcp", "notifications are dropped: the client reads too slowly");
            }
        });
    }

    /// Keeps the space for a response that is about to be written.
    pub fn hold(&self, space: Space) {
        lock(&self.state).spaces.push(space);
    }

    pub fn respond(&self, message: Vec<u8>) {
        self.change(|state| {
            state.messages.push(Class::Answer, message, self.bounds);
            state.response_done();
        });
    }

    /// The response of a request that was never started, and so abandoned.
    pub fn push_response(&self, message: Vec<u8>) {
        self.change(|state| state.messages.push(Class::Answer, message, self.bounds));
    }

    /// A cancelled request gets no response.
    pub fn abandon(&self) {
        self.change(State::response_done);
    }

    /// Disconnects the reader while the call continues.
    pub fn disconnect_reader(self: &Arc<Self>, retry: Option<Duration>) {
        self.change(|state| {
            self.become_stream(state);
            state.disconnect = Some(retry.unwrap_or(RETRY));
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        if state.released {
            state.messages.clear();
        }
        let is_counted = self.count(&mut state);
        drop(state);
        self.wake.notify_one();
        if is_counted {
            self.buffers.make_room();
        }
    }

    /// Whether the bytes are counted.
    fn count(&self, state: &mut State) -> bool {
        let Some(share) = &state.share else { return false };
        state.spaces.clear();
        let bytes = state.messages.bytes();
        share.set(bytes);
        self.session_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.session_bytes.fetch_sub(std::mem::replace(&mut state.counted, bytes), Ordering::Relaxed);
        true
    }

    fn become_stream(self: &Arc<Self>, state: &mut State) {
        if state.share.is_none() {
            let holder: Weak<Outbox> = Arc::downgrade(self);
            state.share = Some(self.buffers.register(holder));
        }
    }

    /// Waits for all responses; `None` as soon as another message requires a stream.
    pub async fn responses_only(&self) -> Option<Vec<Bytes>> {
        loop {
            {
                let state = lock(&self.state);
                if state.share.is_some() {
                    return None;
                }
                if state.pending_responses == 0 {
                    return Some(state.messages.iter().map(|event| event.message.clone()).collect());
                }
            }
            self.wake.notified().await;
        }
    }

    /// Registers a reader. The earlier reader ends: a client that resumes has lost its connection.
    pub fn attach(self: &Arc<Self>, connection: Arc<Connection>) -> u64 {
        let mut state = lock(&self.state);
        self.become_stream(&mut state);
        state.reader += 1;
        state.connection = Some(connection);
        state.progress = Instant::now();
        self.count(&mut state);
        let reader = state.reader;
        drop(state);
        self.wake.notify_waiters();
        reader
    }

    /// Resolves when nobody reads the messages: the client has gone, and may resume a stream later.
    pub async fn unread(&self) {
        loop {
            let left = self.left.notified();
            {
                let state = lock(&self.state);
                if state.released || (state.share.is_some() && state.connection.is_none()) {
                    return;
                }
            }
            left.await;
        }
    }

    /// Nobody can read the messages any more.
    pub fn discard(&self) {
        self.change(|state| state.released = true);
        self.left.notify_waiters();
    }

    /// The reader has ended, at the end of the stream or with its connection.
    pub fn detach(&self, reader: u64) {
        let mut state = lock(&self.state);
        if state.reader == reader {
            state.connection = None;
            if state.released {
                state.messages.clear();
                self.count(&mut state);
            }
        }
        drop(state);
        self.left.notify_waiters();
    }

    /// The next event after the number `after`.
    pub async fn next(&self, reader: u64, after: u64) -> NextEvent {
        loop {
            // Created before the check, so that no wake-up is missed.
            let woken = self.wake.notified();
            {
                let mut state = lock(&self.state);
                if state.reader != reader || state.released {
                    return NextEvent::End;
                }
                state.progress = Instant::now();
                if let Some(event) = state.messages.after(after) {
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

    /// Whether an event with this number was or will be sent.
    pub fn knows(&self, number: u64) -> bool {
        number <= lock(&self.state).messages.last()
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

    /// The bound of the session.
    pub fn max_bytes(&self) -> usize {
        self.bounds.bytes
    }

    /// Whether a client is reading it.
    pub fn is_read(&self) -> bool {
        lock(&self.state).connection.is_some()
    }

    pub fn is_released(&self) -> bool {
        lock(&self.state).released
    }

    pub fn drop_notifications(&self) {
        self.change(|state| state.messages.drop_notifications());
    }

    /// The reader takes something.
    pub fn touch(&self) {
        lock(&self.state).progress = Instant::now();
    }
}

impl Holder for Outbox {
    fn held(&self) -> Option<Held> {
        let state = lock(&self.state);
        let (bytes, kept) = (state.messages.bytes(), state.connection.is_none());
        // While a call runs, its questions and responses stay.
        let free = state.finished_at.is_some() || state.connection.is_some();
        (bytes > 0 && free && !state.released).then_some(Held { bytes, kept, since: state.progress })
    }

    fn release(&self) {
        let mut state = lock(&self.state);
        let reading = state.connection.take();
        state.released = state.finished_at.is_some();
        match (&state.share, &reading) {
            // The connection still has what it is sending.
            (Some(share), Some(_)) if state.released => share.leave(),
            _ if state.released => state.messages.clear(),
            _ => state.messages.drop_notifications(),
        }
        self.count(&mut state);
        drop(state);
        self.wake.notify_waiters();
        self.left.notify_waiters();
        if let Some(connection) = reading {
            connection.disconnect("it reads too slowly, and max_buffered_bytes is reached");
        }
    }
}

impl State {
    fn response_done(&mut self) {
        self.pending_responses = self.pending_responses.saturating_sub(1);
        if self.pending_responses == 0 {
            self.finished_at = Some(Instant::now());
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.session_bytes.fetch_sub(lock(&self.state).counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { messages: 256, bytes: 10_000 };

    fn outbox(pending_responses: usize) -> Arc<Outbox> {
        Outbox::new(3, pending_responses, BOUNDS, &Buffers::new(1 << 20), &Arc::default())
    }

    #[tokio::test]
    async fn responses_alone_are_plain_json_and_other_messages_need_a_stream() {
        let plain = outbox(1);
        plain.respond(b"a".to_vec());
        assert_eq!(plain.responses_only().await.unwrap(), [Bytes::from_static(b"a")]);
        let stream = outbox(1);
        stream.send(Class::Notification, b"n".to_vec());
        assert!(stream.responses_only().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_resumes_gets_what_it_missed() {
        let outbox = outbox(1);
        outbox.send(Class::Notification, b"one".to_vec());
        outbox.disconnect_reader(None);
        let reader = outbox.attach(Arc::default());
        let NextEvent::Event(event) = outbox.next(reader, 0).await else { panic!("no event") };
        assert_eq!((event.number, outbox.event_id(event.number).as_str()), (1, "3-1"));
        assert!(matches!(outbox.next(reader, 1).await, NextEvent::Disconnect(RETRY)));
        let again = outbox.attach(Arc::default());
        assert!(matches!(outbox.next(reader, 0).await, NextEvent::End));
        outbox.respond(b"two".to_vec());
        assert!(matches!(outbox.next(again, 0).await, NextEvent::Event(event) if event.message == "one"));
        assert!(matches!(outbox.next(again, 1).await, NextEvent::Event(event) if event.message == "two"));
        assert!(matches!(outbox.next(again, 2).await, NextEvent::End));
    }

    #[tokio::test]
    async fn notifications_are_bounded_questions_and_responses_stay() {
        let outbox = outbox(2);
        outbox.respond(b"first".to_vec());
        outbox.send(Class::Required, b"question".to_vec());
        for _ in 0..BOUNDS.messages * 2 {
            outbox.send(Class::Notification, b"n".to_vec());
        }
        let state = lock(&outbox.state);
        assert_eq!(state.messages.len(), BOUNDS.messages);
        let first: Vec<_> = state.messages.iter().take(2).map(|event| event.message.clone()).collect();
        assert_eq!(first, ["first", "question"]);
    }

    #[tokio::test]
    async fn at_the_bound_of_all_a_kept_result_is_dropped_and_a_running_call_keeps_its_question() {
        let buffers = Buffers::new(100);
        let total = Arc::default();
        let new = |key| Outbox::new(key, 1, BOUNDS, &buffers, &total);
        let (kept, running) = (new(1), new(2));
        running.send(Class::Required, vec![b'q'; 60]);
        kept.send(Class::Notification, b"n".to_vec());
        kept.respond(vec![b'k'; 50]);
        running.send(Class::Notification, vec![b'n'; 50]);
        assert!(kept.is_released());
        assert_eq!(total.load(Ordering::Relaxed), lock(&running.state).messages.bytes());
        let reader = kept.attach(Arc::default());
        assert!(matches!(kept.next(reader, 0).await, NextEvent::End));
        let reader = running.attach(Arc::default());
        assert!(
            matches!(running.next(reader, 0).await, NextEvent::Event(event) if event.class == Class::Required)
        );
    }
}
