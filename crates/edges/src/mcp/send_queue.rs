//! Outgoing messages of one connection: bounded in number, bytes and time.
//!
//! Responses wait for space. Notifications never wait: the oldest are dropped, so a slow client misses some.
//! When the client reads nothing for too long, the connection is closed.

use crate::mcp::lock;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

pub(super) struct SendQueue {
    bounds: Bounds,
    state: Mutex<State>,
    enqueued: Notify,
    dequeued: Notify,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub messages: usize,
    /// One message alone may be larger.
    pub bytes: usize,
    /// How long the client may read nothing while a sender waits for space.
    pub stall_timeout: Duration,
}

struct State {
    queued: VecDeque<QueuedMessage>,
    bytes: usize,
    /// Bytes reserved by running requests.
    reserved: usize,
    closed: Option<CloseReason>,
}

struct QueuedMessage {
    message: Bytes,
    notification: bool,
}

/// Why the queue was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// Closed after the last message.
    Finished,
    /// The client reads nothing.
    TooSlow,
}

/// Space reserved for a running request, until it is dropped.
pub(super) struct Reservation {
    send_queue: Arc<SendQueue>,
    bytes: usize,
}

/// Why no space was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReserveError {
    /// The queue is closed.
    Closed,
    /// Running requests hold all the space.
    Busy,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        lock(&self.send_queue.state).reserved -= self.bytes;
        self.send_queue.dequeued.notify_waiters();
    }
}

impl SendQueue {
    pub fn new(bounds: Bounds) -> SendQueue {
        let state = State { queued: VecDeque::new(), bytes: 0, reserved: 0, closed: None };
        SendQueue { bounds, state: Mutex::new(state), enqueued: Notify::new(), dequeued: Notify::new() }
    }

    /// Sends a notification; it is dropped when responses alone fill the queue.
    pub fn try_send(&self, message: impl Into<Bytes>) {
        self.push(&message.into(), true);
    }

    /// Back-pressure: a new request reserves space before it starts, so that running requests count like
    /// queued messages. Waits for space.
    pub async fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, ReserveError> {
        loop {
            let dequeued = self.dequeued.notified();
            let read_too_slowly = {
                let mut state = lock(&self.state);
                if state.closed.is_some() {
                    return Err(ReserveError::Closed);
                }
                let in_use = state.bytes + state.reserved;
                let full = state.queued.len() >= self.bounds.messages;
                if in_use == 0 || (!full && in_use + bytes <= self.bounds.bytes) {
                    state.reserved += bytes;
                    return Ok(Reservation { send_queue: self.clone(), bytes });
                }
                full || state.bytes > self.bounds.bytes / 2
            };
            if tokio::time::timeout(self.bounds.stall_timeout, dequeued).await.is_err() {
                if !read_too_slowly {
                    return Err(ReserveError::Busy);
                }
                self.close(CloseReason::TooSlow);
            }
        }
    }

    /// Waits for space; `false` when the queue is closed.
    pub async fn send(&self, message: Bytes) -> bool {
        loop {
            // Created before the check, so that no wake-up is missed.
            let dequeued = self.dequeued.notified();
            match self.push(&message, false) {
                PushResult::Queued => return true,
                PushResult::Closed => return false,
                PushResult::Full => {}
            }
            if tokio::time::timeout(self.bounds.stall_timeout, dequeued).await.is_err() {
                self.close(CloseReason::TooSlow);
                return false;
            }
        }
    }

    /// The next message, or why the queue was closed. Cancel-safe.
    pub async fn next(&self) -> Result<Bytes, CloseReason> {
        loop {
            let enqueued = self.enqueued.notified();
            {
                let mut state = lock(&self.state);
                if let Some(first) = state.queued.pop_front() {
                    state.bytes -= first.message.len();
                    if state.queued.is_empty() {
                        // Frees the memory of a burst.
                        state.queued = VecDeque::new();
                    }
                    drop(state);
                    self.dequeued.notify_waiters();
                    return Ok(first.message);
                }
                if let Some(reason) = state.closed {
                    return Err(reason);
                }
            }
            enqueued.await;
        }
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.state).queued.is_empty()
    }

    /// Refuses new messages. Queued ones are still delivered, unless the client is too slow.
    pub fn close(&self, reason: CloseReason) {
        let mut state = lock(&self.state);
        state.closed = state.closed.or(Some(reason));
        if reason == CloseReason::TooSlow {
            state.queued = VecDeque::new();
            state.bytes = 0;
        }
        drop(state);
        self.enqueued.notify_one();
        self.dequeued.notify_waiters();
    }

    fn push(&self, message: &Bytes, notification: bool) -> PushResult {
        let mut state = lock(&self.state);
        if state.closed.is_some() {
            return PushResult::Closed;
        }
        while !state.has_room(message.len(), self.bounds) {
            let Some(oldest) = state.queued.iter().position(|queued| queued.notification) else {
                return PushResult::Full;
            };
            if let Some(dropped) = state.queued.remove(oldest) {
                state.bytes -= dropped.message.len();
            }
        }
        state.bytes += message.len();
        state.queued.push_back(QueuedMessage { message: message.clone(), notification });
        drop(state);
        self.enqueued.notify_one();
        PushResult::Queued
    }
}

enum PushResult {
    Queued,
    Full,
    Closed,
}

impl State {
    fn has_room(&self, more: usize, bounds: Bounds) -> bool {
        self.queued.is_empty() || (self.queued.len() < bounds.messages && self.bytes + more <= bounds.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { messages: 3, bytes: 100, stall_timeout: Duration::from_millis(50) };

    #[tokio::test]
    async fn the_oldest_notification_is_dropped_and_responses_stay() {
        let send_queue = SendQueue::new(BOUNDS);
        assert!(send_queue.send("answer".into()).await);
        for number in 0..10 {
            send_queue.try_send(format!("n{number}"));
        }
        assert!(send_queue.send("last".into()).await);
        send_queue.close(CloseReason::Finished);
        let mut all = Vec::new();
        while let Ok(message) = send_queue.next().await {
            all.push(message);
        }
        assert_eq!(all, ["answer", "n9", "last"]);
        assert_eq!(send_queue.next().await, Err(CloseReason::Finished));
    }

    #[tokio::test]
    async fn bytes_are_bounded_and_responses_wait() {
        let send_queue = SendQueue::new(Bounds { stall_timeout: Duration::from_secs(20), ..BOUNDS });
        assert!(send_queue.send(vec![b'a'; 500].into()).await, "a single message may be larger");
        send_queue.try_send(b"n".to_vec());
        let (sent, dequeued) = tokio::join!(send_queue.send("b".into()), send_queue.next());
        assert!(sent && dequeued.is_ok_and(|message| message.len() == 500));
        assert_eq!(send_queue.next().await, Ok("b".into()), "the notification was dropped");
    }

    #[tokio::test]
    async fn a_connection_that_is_not_read_is_closed() {
        let send_queue = SendQueue::new(BOUNDS);
        for _ in 0..3 {
            assert!(send_queue.send("x".into()).await);
        }
        assert!(!send_queue.send("x".into()).await);
        assert_eq!(send_queue.next().await, Err(CloseReason::TooSlow));
        assert!(send_queue.is_empty() && !send_queue.send("x".into()).await);
    }

    #[tokio::test]
    async fn a_running_request_holds_its_space_until_it_ends() {
        let send_queue = Arc::new(SendQueue::new(BOUNDS));
        let first = send_queue.reserve(500).await.expect("a single message may be larger");
        assert_eq!(send_queue.reserve(1).await.err(), Some(ReserveError::Busy), "the reader is not to blame");
        drop(first);
        let both = (send_queue.reserve(50).await, send_queue.reserve(50).await);
        assert!(both.0.is_ok() && both.1.is_ok());
        drop(both);
        assert!(send_queue.send(vec![b'a'; 90].into()).await);
        assert_eq!(send_queue.reserve(50).await.err(), Some(ReserveError::Closed), "not read");
    }
}
