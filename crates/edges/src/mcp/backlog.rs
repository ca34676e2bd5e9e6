//! Messages that wait for a client that takes everything on one line: bounded in number, bytes and time.
//!
//! Whoever answers waits for room. Notifications never wait: the oldest make room, and a client that slow misses some.
//! When nothing was taken for long, the line is cut.

use super::lock;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
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
    /// What runs and will be answered.
    reserved: usize,
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

/// Room for work that runs, until it is dropped.
pub(super) struct Reserved {
    backlog: Arc<Backlog>,
    bytes: usize,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The line has ended.
    Ended,
    /// What runs takes it all.
    Busy,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        lock(&self.backlog.state).reserved -= self.bytes;
        self.backlog.taken.notify_waiters();
    }
}

impl Backlog {
    pub fn new(bounds: Bounds) -> Backlog {
        let state = State { waiting: VecDeque::new(), bytes: 0, reserved: 0, end: None };
        Backlog { bounds, state: Mutex::new(state), filled: Notify::new(), taken: Notify::new() }
    }

    /// A notification: it is left out when answers alone fill the backlog.
    pub fn say(&self, message: impl Into<Bytes>) {
        self.push(&message.into(), true);
    }

    /// Whoever starts new work asks first, so that work and its results do not pile up outside: what runs counts as if it
    /// waited here. Waits for room.
    pub async fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reserved, Refused> {
        loop {
            let taken = self.taken.notified();
            let read_too_slowly = {
                let mut state = lock(&self.state);
                if state.end.is_some() {
                    return Err(Refused::Ended);
                }
                let held = state.bytes + state.reserved;
                let full = state.waiting.len() >= self.bounds.messages;
                if held == 0 || (!full && held + bytes <= self.bounds.bytes) {
                    state.reserved += bytes;
                    return Ok(Reserved { backlog: self.clone(), bytes });
                }
                full || state.bytes > self.bounds.bytes / 2
            };
            if tokio::time::timeout(self.bounds.patience, taken).await.is_err() {
                if !read_too_slowly {
                    return Err(Refused::Busy);
                }
                self.end(End::TooSlow);
            }
        }
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

    #[tokio::test]
    async fn what_runs_takes_room_until_it_is_done() {
        let backlog = Arc::new(Backlog::new(BOUNDS));
        let first = backlog.reserve(500).await.expect("one alone may be larger");
        assert_eq!(backlog.reserve(1).await.err(), Some(Refused::Busy), "the reader is not to blame");
        drop(first);
        let both = (backlog.reserve(50).await, backlog.reserve(50).await);
        assert!(both.0.is_ok() && both.1.is_ok());
        drop(both);
        assert!(backlog.send(vec![b'a'; 90].into()).await);
        assert_eq!(backlog.reserve(50).await.err(), Some(Refused::Ended), "nobody reads");
    }
}
