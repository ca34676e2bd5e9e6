//! Outgoing messages of one connection. Sending never waits; what waits is the start of a request, until the largest
//! response that it may have fits. So answers are never dropped, and the queue stays within its bound.
//!
//! When the client reads nothing for too long while requests wait, the connection is closed.

use crate::buffers::{Buffers, Held, Holder, Share};
use crate::connection_limits::Connection;
use crate::counted_body::COUNTED;
use crate::mcp::lock;
use crate::mcp::messages::{Bounds, Class, Messages};
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tracing::warn;

pub(super) struct SendQueue {
    bounds: Bounds,
    /// How long the client may read nothing while a request waits for space.
    stall_timeout: Duration,
    state: Mutex<State>,
    share: Share,
    /// Ended when the client is too slow, unless the transport does that itself.
    connection: OnceLock<Arc<Connection>>,
    enqueued: Notify,
    dequeued: Notify,
}

struct State {
    messages: Messages,
    /// Bytes of messages that are being written.
    in_flight: usize,
    /// Bytes reserved for the responses of running requests.
    reserved: usize,
    /// Bytes of requests that wait for space.
    waiting: usize,
    /// When the client last read something, or the queue was empty.
    progress: Instant,
    closed: Option<CloseReason>,
}

/// Why the queue was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// Closed after the last message.
    Finished,
    /// The client reads nothing, or too slowly.
    TooSlow,
}

/// A request that waits for space, counted until it is dropped.
pub(super) struct Waiting {
    send_queue: Arc<SendQueue>,
    bytes: usize,
}

/// Space for the response of a running request, until it is dropped.
pub(super) struct Reservation {
    send_queue: Arc<SendQueue>,
    bytes: usize,
}

impl SendQueue {
    pub fn new(bounds: Bounds, stall_timeout: Duration, buffers: &Arc<Buffers>) -> Arc<SendQueue> {
        let state = State {
            messages: Messages::default(),
            in_flight: 0,
            reserved: 0,
            waiting: 0,
            progress: Instant::now(),
            closed: None,
        };
        Arc::new_cyclic(|queue: &Weak<SendQueue>| SendQueue {
            bounds,
            stall_timeout,
            state: Mutex::new(state),
            share: buffers.register(queue.clone()),
            connection: OnceLock::new(),
            enqueued: Notify::new(),
            dequeued: Notify::new(),
        })
    }

    /// Queues a message; `false` when the queue is closed.
    pub fn send(&self, class: Class, message: impl Into<Bytes>) -> bool {
        self.push(|messages, bounds| messages.push(class, message, bounds))
    }

    /// Queues a short answer that is sent before all other messages.
    pub fn send_first(&self, message: impl Into<Bytes>) -> bool {
        self.push(|messages, _| messages.push_first(message))
    }

    fn push(&self, push: impl FnOnce(&mut Messages, Bounds)) -> bool {
        let mut state = lock(&self.state);
        if state.closed.is_some() {
            return false;
        }
        if state.messages.is_empty() {
            state.progress = Instant::now();
        }
        let dropped = state.messages.dropped();
        push(&mut state.messages, self.bounds);
        if dropped == 0 && state.messages.dropped() > 0 {
            warn!(target: "toolyard::mcp", "notifications are dropped: the client reads too slowly");
        }
        // Requests cannot do this, because they reserve: only a flood of messages that are refused can.
        let is_full = state.messages.len() > 1 && state.messages.bytes() > 2 * self.bounds.bytes;
        self.count(&state);
        drop(state);
        if is_full {
            self.close(CloseReason::TooSlow);
        } else {
            self.enqueued.notify_one();
            self.share.make_room();
        }
        true
    }

    /// Back-pressure for what the client sends: waits while very much of it waits already. `None` when the queue is
    /// closed.
    pub async fn admit(self: &Arc<Self>, bytes: usize) -> Option<Waiting> {
        let slack = self.bounds.bytes / 4;
        let admitted = self.wait_for(|state| {
            let room = state.waiting == 0 || state.waiting + bytes <= slack;
            let admit = room && state.messages.bytes() <= self.bounds.bytes + slack;
            if admit {
                state.waiting += bytes;
            }
            admit
        });
        admitted.await.then(|| Waiting { send_queue: self.clone(), bytes })
    }

    /// Waits until a response of this size fits. `None` when the queue is closed.
    pub async fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let reserved = self.wait_for(|state| state.reserve(bytes, self.bounds));
        reserved.await.then(|| Reservation { send_queue: self.clone(), bytes })
    }

    /// The same without waiting.
    pub fn try_reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let reserved = lock(&self.state).reserve(bytes, self.bounds);
        reserved.then(|| Reservation { send_queue: self.clone(), bytes })
    }

    /// Waits until `ready` holds; `false` when the queue is closed, because the client reads nothing for example.
    async fn wait_for(&self, mut ready: impl FnMut(&mut State) -> bool) -> bool {
        loop {
            // Created before the check, so that no wake-up is missed.
            let dequeued = self.dequeued.notified();
            let stalled_at = {
                let mut state = lock(&self.state);
                if state.closed.is_some() {
                    return false;
                }
                if ready(&mut state) {
                    return true;
                }
                // Only the client can be slow; running calls may take as long as they want.
                (!state.messages.is_empty()).then(|| state.progress + self.stall_timeout)
            };
            match stalled_at {
                None => dequeued.await,
                Some(stalled_at) => {
                    if tokio::time::timeout_at(stalled_at.into(), dequeued).await.is_err() {
                        self.close_if_stalled();
                    }
                }
            }
        }
    }

    fn close_if_stalled(&self) {
        let state = lock(&self.state);
        let stalled = !state.messages.is_empty() && state.progress.elapsed() >= self.stall_timeout;
        drop(state);
        if stalled {
            self.close(CloseReason::TooSlow);
        }
    }

    /// The next message, or why the queue was closed. Cancel-safe.
    pub async fn next(self: &Arc<Self>) -> Result<Bytes, CloseReason> {
        loop {
            let enqueued = self.enqueued.notified();
            {
                let mut state = lock(&self.state);
                if let Some(message) = state.messages.pop() {
                    let is_counted = message.len() >= COUNTED;
                    state.in_flight += if is_counted { message.len() } else { 0 };
                    self.read_some(state);
                    return Ok(if is_counted {
                        Bytes::from_owner(InFlight { message, queue: self.clone() })
                    } else {
                        message
                    });
                }
                if let Some(reason) = state.closed {
                    return Err(reason);
                }
            }
            enqueued.await;
        }
    }

    /// The client has read a part of a message.
    pub fn progress(&self) {
        self.read_some(lock(&self.state));
    }

    fn read_some(&self, mut state: MutexGuard<'_, State>) {
        state.progress = Instant::now();
        self.count(&state);
        drop(state);
        self.dequeued.notify_waiters();
    }

    fn count(&self, state: &State) {
        let is_released = state.closed == Some(CloseReason::TooSlow);
        self.share.set(if is_released { 0 } else { state.messages.bytes() + state.in_flight });
    }

    /// The connection to end when the client is too slow.
    pub fn set_connection(&self, connection: Arc<Connection>) {
        // Set once, by the transport.
        let _ = self.connection.set(connection);
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.state).messages.is_empty()
    }

    /// Resolves when the client was found to be too slow.
    pub async fn wait_until_too_slow(&self) {
        loop {
            let changed = self.dequeued.notified();
            if lock(&self.state).closed == Some(CloseReason::TooSlow) {
                return;
            }
            changed.await;
        }
    }

    /// Refuses new messages. Queued ones are still delivered, unless the client is too slow.
    pub fn close(&self, reason: CloseReason) {
        let mut state = lock(&self.state);
        state.closed = state.closed.or(Some(reason));
        if reason == CloseReason::TooSlow {
            state.messages.clear();
        }
        self.count(&state);
        drop(state);
        if reason == CloseReason::TooSlow
            && let Some(connection) = self.connection.get()
        {
            connection.disconnect("it reads too slowly");
        }
        self.enqueued.notify_one();
        self.dequeued.notify_waiters();
    }
}

impl Holder for SendQueue {
    fn held(&self) -> Option<Held> {
        let state = lock(&self.state);
        let bytes = state.messages.bytes() + state.in_flight;
        let is_open = state.closed != Some(CloseReason::TooSlow);
        (is_open && bytes > 0).then_some(Held { bytes, kept: false, since: state.progress })
    }

    fn release(&self) {
        self.close(CloseReason::TooSlow);
    }
}

impl State {
    fn reserve(&mut self, bytes: usize, bounds: Bounds) -> bool {
        let in_use = self.messages.bytes() + self.reserved;
        let room = self.messages.len() < bounds.messages && in_use + bytes <= bounds.bytes;
        // One alone may be larger.
        let fits = self.closed.is_none() && (in_use == 0 || room);
        self.reserved += if fits { bytes } else { 0 };
        fits
    }
}

/// A message that is being written. It counts until the last part of it is dropped.
struct InFlight {
    message: Bytes,
    queue: Arc<SendQueue>,
}

impl AsRef<[u8]> for InFlight {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = lock(&self.queue.state);
        state.in_flight -= self.message.len();
        self.queue.read_some(state);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.send_queue.state).waiting -= self.bytes;
        self.send_queue.dequeued.notify_waiters();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        lock(&self.send_queue.state).reserved -= self.bytes;
        self.send_queue.dequeued.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { messages: 3, bytes: 100 };

    fn queue(stall_timeout: Duration) -> Arc<SendQueue> {
        SendQueue::new(BOUNDS, stall_timeout, &Buffers::new(1000))
    }

    #[tokio::test]
    async fn a_request_starts_when_its_response_fits() {
        let queue = queue(Duration::from_secs(20));
        let first = queue.reserve(500).await.expect("one alone may be larger");
        assert!(queue.try_reserve(1).is_none());
        drop(first);
        let both = (queue.reserve(50).await, queue.reserve(50).await);
        let (third, ()) = tokio::join!(queue.reserve(50), async {
            tokio::task::yield_now().await;
            drop(both);
        });
        assert!(third.is_some());
        assert!(queue.send(Class::Answer, "x".repeat(90)));
        assert!(queue.try_reserve(50).is_none(), "the response is not read yet");
        drop(third);
        let (space, read) = tokio::join!(queue.reserve(50), queue.next());
        assert!(space.is_some() && read.is_ok());
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_disconnected_when_a_request_waits_for_it() {
        let queue = queue(Duration::from_millis(50));
        assert!(queue.send(Class::Answer, "x".repeat(90)));
        assert!(queue.reserve(50).await.is_none());
        queue.wait_until_too_slow().await;
        assert_eq!(queue.next().await, Err(CloseReason::TooSlow));
        assert!(queue.is_empty() && !queue.send(Class::Answer, "x"));
    }

    #[tokio::test]
    async fn slow_calls_are_not_the_clients_fault_and_progress_counts() {
        let queue = queue(Duration::from_millis(100));
        let running = queue.reserve(100).await.unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(300), queue.reserve(50)).await;
        assert!(waited.is_err(), "the second request waits for the first");
        assert!(queue.send(Class::Answer, "x".repeat(90)));
        let reader = async {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                queue.progress();
            }
            drop(running);
            queue.next().await
        };
        let (space, read) = tokio::join!(queue.reserve(50), reader);
        assert!(space.is_some() && read.is_ok(), "a slow reader is not disconnected");
    }

    #[tokio::test]
    async fn a_flood_that_needs_no_request_is_bounded_too() {
        let queue = queue(Duration::from_secs(20));
        for _ in 0..30 {
            queue.send(Class::Answer, "refused!");
        }
        assert_eq!(queue.next().await, Err(CloseReason::TooSlow));
        let buffers = Buffers::new(100);
        let slow = SendQueue::new(BOUNDS, Duration::from_secs(20), &buffers);
        let other = SendQueue::new(BOUNDS, Duration::from_secs(20), &buffers);
        slow.send(Class::Answer, "x".repeat(60));
        other.send(Class::Answer, "y".repeat(60));
        assert_eq!(slow.next().await, Err(CloseReason::TooSlow), "the bound of all connections is reached");
        assert!(other.next().await.is_ok());
    }
}
