//! Messages that wait for a client that takes everything on one line: bounded in number, bytes and time.
//!
//! Whoever answers waits for room. Notifications never wait: the oldest make room, and a client that slow misses some.
//! When nothing was taken for long, the line is cut.

use super::lock;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::Notify;

pub(super) struct Backlog {
    bounds: Bounds,
    state: Mutex<State>,
    filled: Notify,
    taken: Notify,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub messages: usize,
    /// One message alone may be larger.
    pub bytes: usize,
    /// How long nothing may be taken while someone waits for room.
    pub patience: Duration,
}

struct State {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    end: Option<End>,
}

struct Waiting {
    message: Bytes,
    notification: bool,
}

/// Why nothing more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything was said.
    Over,
    /// The client takes nothing.
    TooSlow,
}

impl Backlog {
    pub fn new(bounds: Bounds) -> Backlog {
        let state = State { waiting: VecDeque::new(), bytes: 0, end: None };
        Backlog { bounds, state: Mutex::new(state), filled: Notify::new(), taken: Notify::new() }
    }

    /// A notification: it is left out when answers alone fill the backlog.
    pub fn say(&self, message: impl Into<Bytes>) {
        self.push(&message.into(), true);
    }

    /// Waits for room; `false` when the line has ended.
    pub async fn send(&self, message: Bytes) -> bool {
        loop {
            // Made before looking, so that no room is missed.
            let taken = self.taken.notified();
            match self.push(&message, false) {
                Pushed::In => return true,
                Pushed::Ended => return false,
                Pushed::Full => {}
            }
            if tokio::time::timeout(self.bounds.patience, taken).await.is_err() {
                self.end(End::TooSlow);
                return false;
            }
        }
    }

    /// The next message, or why there is none. Nothing is lost when the future is dropped.
    pub async fn next(&self) -> Result<Bytes, End> {
        loop {
            let filled = self.filled.notified();
            {
                let mut state = lock(&self.state);
                if let Some(first) = state.waiting.pop_front() {
                    state.bytes -= first.message.len();
                    if state.waiting.is_empty() {
                        // A burst leaves no large queue behind.
                        state.waiting = VecDeque::new();
                    }
                    drop(state);
                    self.taken.notify_waiters();
                    return Ok(first.message);
                }
                if let Some(end) = state.end {
                    return Err(end);
                }
            }
            filled.await;
        }
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.state).waiting.is_empty()
    }

    /// Nothing more is taken in. What waits is still given out, unless it is too late for that.
    pub fn end(&self, end: End) {
        let mut state = lock(&self.state);
        state.end = state.end.or(Some(end));
        if end == End::TooSlow {
            state.waiting = VecDeque::new();
            state.bytes = 0;
        }
        drop(state);
        self.filled.notify_one();
        self.taken.notify_waiters();
    }

    fn push(&self, message: &Bytes, notification: bool) -> Pushed {
        let mut state = lock(&self.state);
        if state.end.is_some() {
            return Pushed::Ended;
        }
        while !state.has_room(message.len(), self.bounds) {
            let Some(oldest) = state.waiting.iter().position(|waiting| waiting.notification) else {
                return Pushed::Full;
            };
            if let Some(dropped) = state.waiting.remove(oldest) {
                state.bytes -= dropped.message.len();
            }
        }
        state.bytes += message.len();
        state.waiting.push_back(Waiting { message: message.clone(), notification });
        drop(state);
        self.filled.notify_one();
        Pushed::In
    }
}

enum Pushed {
    In,
    Full,
    Ended,
}

impl State {
    fn has_room(&self, more: usize, bounds: Bounds) -> bool {
        self.waiting.is_empty() || (self.waiting.len() < bounds.messages && self.bytes + more <= bounds.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { messages: 3, bytes: 100, patience: Duration::from_millis(50) };

    #[tokio::test]
    async fn the_oldest_notification_makes_room_and_answers_stay() {
        let backlog = Backlog::new(BOUNDS);
        assert!(backlog.send("answer".into()).await);
        for number in 0..10 {
            backlog.say(format!("n{number}"));
        }
        assert!(backlog.send("last".into()).await);
        backlog.end(End::Over);
        let mut all = Vec::new();
        while let Ok(message) = backlog.next().await {
            all.push(message);
        }
        assert_eq!(all, ["answer", "n9", "last"]);
        assert_eq!(backlog.next().await, Err(End::Over));
    }

    #[tokio::test]
    async fn bytes_are_bounded_and_whoever_answers_waits() {
        let backlog = Backlog::new(Bounds { patience: Duration::from_secs(20), ..BOUNDS });
        assert!(backlog.send(vec![b'a'; 500].into()).await, "one alone may be larger");
        backlog.say(b"n".to_vec());
        let (sent, taken) = tokio::join!(backlog.send("b".into()), backlog.next());
        assert!(sent && taken.is_ok_and(|message| message.len() == 500));
        assert_eq!(backlog.next().await, Ok("b".into()), "the notification found no room");
    }

    #[tokio::test]
    async fn a_line_that_nobody_reads_is_cut() {
        let backlog = Backlog::new(BOUNDS);
        for _ in 0..3 {
            assert!(backlog.send("x".into()).await);
        }
        assert!(!backlog.send("x".into()).await);
        assert_eq!(backlog.next().await, Err(End::TooSlow));
        assert!(backlog.is_empty() && !backlog.send("x".into()).await);
    }
}
