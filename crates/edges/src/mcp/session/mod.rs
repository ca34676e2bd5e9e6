//! Sessions of handshake clients: bounded in number, idle time and bytes, bound to the identity that opened them.

pub(super) mod caller;
mod dialect_v1;
pub(super) mod dispatch;
pub(super) mod notification_stream;
pub(super) mod outbox;
pub(super) mod registration;

use crate::buffers::{Buffers, Holder};
use crate::mcp::messages::Bounds;
use crate::mcp::running_calls::RunningCalls;
use crate::mcp::session::outbox::Outbox;
use crate::mcp::transport::duplex::DuplexClient;
use crate::mcp::{McpOptions, lock};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use toolyard_engine::WatchGuard;
use toolyard_engine::clock::Random;
use toolyard_protocol::{Identity, LogLevel};
use toolyard_wire::jsonrpc::RequestId;
use toolyard_wire::mcp::initialize::Handshake;

/// How long a finished stream can be resumed.
const RESUME_WINDOW: Duration = Duration::from_secs(60);
/// Finished streams of one session that can be resumed. Running ones are bounded as running calls are.
const MAX_KEPT: usize = 64;
/// Messages of one stream; beyond that notifications are dropped.
const MAX_STREAM_MESSAGES: usize = 256;
/// URIs that one session may watch.
const MAX_SUBSCRIPTIONS: usize = 1000;
/// Requests to the client that may be open.
const MAX_PENDING_REQUESTS: usize = 100;
/// Notifications stored for a resumed stream.
const MAX_STORED_NOTIFICATIONS: usize = 32;
/// A session is not evicted for a newer one before this.
const MIN_IDLE: Duration = Duration::from_secs(60);

pub(super) struct Sessions {
    max: usize,
    table: Mutex<HashMap<Box<str>, SessionEntry>>,
}

/// An entry of the session table.
#[derive(Clone)]
pub(super) enum SessionEntry {
    /// Streamable HTTP: each request has its own HTTP exchange.
    Session(Arc<Session>),
    /// One duplex connection for the whole session.
    Duplex(Arc<DuplexClient>),
}

pub(super) struct Session {
    pub identity: Identity,
    pub handshake: Handshake,
    pub calls: RunningCalls,
    log: AtomicU8,
    /// Streams that are being read.
    open_streams: AtomicUsize,
    /// Bytes of all streams.
    bytes: Arc<AtomicUsize>,
    state: Mutex<State>,
}

/// A stream that is being read: its session is in use until it is dropped.
pub(super) struct OpenStream(Arc<Session>);

/// All collections start empty and allocate on first use.
struct State {
    /// When the last request, call or stream ended.
    last_used: Instant,
    next: u64,
    pending_requests: Vec<(u64, oneshot::Sender<Result<Bytes, String>>)>,
    outboxes: VecDeque<Arc<Outbox>>,
    subscriptions: HashMap<String, (WatchGuard, RequestId)>,
    notifications: VecDeque<(u64, Bytes)>,
    /// Dropping it ends the open notification stream.
    listener: Option<oneshot::Sender<()>>,
    closed: bool,
}

impl Sessions {
    pub fn new(max: usize) -> Sessions {
        Sessions { max, table: Mutex::default() }
    }

    /// Opens a session with an unguessable id; `None` when there are too many and none is idle.
    pub fn open(
        &self,
        random: &dyn Random,
        identity: Identity,
        handshake: Handshake,
    ) -> Option<(String, Arc<Session>)> {
        let session = Arc::new(Session::new(identity, handshake));
        let id = self.insert(random, SessionEntry::Session(session.clone()))?;
        Some((id, session))
    }

    /// The same for a duplex client.
    pub fn open_duplex(&self, random: &dyn Random, client: Arc<DuplexClient>) -> Option<String> {
        self.insert(random, SessionEntry::Duplex(client))
    }

    fn insert(&self, random: &dyn Random, entry: SessionEntry) -> Option<String> {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut table = lock(&self.table);
        let evicted = if table.len() >= self.max { Some(longest_idle(&mut table)?) } else { None };
        table.insert(id.as_str().into(), entry);
        drop(table);
        if let Some(entry) = evicted {
            entry.close();
        }
        Some(id)
    }

    /// The session, for its own identity only: for others it does not exist.
    pub fn find(&self, id: &str, identity: &Identity) -> Option<Arc<Session>> {
        let found = lock(&self.table).get(id).filter(|entry| entry.identity() == identity).cloned();
        let Some(SessionEntry::Session(session)) = found else { return None };
        lock(&session.state).last_used = Instant::now();
        Some(session)
    }

    pub fn find_duplex(&self, id: &str, identity: &Identity) -> Option<Arc<DuplexClient>> {
        let found = lock(&self.table).get(id).filter(|entry| entry.identity() == identity).cloned();
        let Some(SessionEntry::Duplex(client)) = found else { return None };
        Some(client)
    }

    /// Ends a session and cancels its calls.
    pub fn remove(&self, id: &str, identity: &Identity) -> bool {
        let entry = {
            let mut table = lock(&self.table);
            match table.get(id) {
                Some(entry) if entry.identity() == identity => table.remove(id),
                _ => None,
            }
        };
        if let Some(entry) = &entry {
            entry.close();
        }
        entry.is_some()
    }

    /// Ends all sessions and returns them.
    pub fn clear(&self) -> Vec<SessionEntry> {
        let table = std::mem::take(&mut *lock(&self.table));
        table.into_values().inspect(SessionEntry::close).collect()
    }

    pub fn sweep(&self, now: Instant, idle: Duration) {
        let mut old = Vec::new();
        lock(&self.table).retain(|_, entry| {
            if let SessionEntry::Session(session) = entry {
                session.drop_expired_outboxes(now);
            }
            let keep = entry.idle(now) < idle;
            if !keep {
                old.push(entry.clone());
            }
            keep
        });
        for entry in old {
            entry.close();
        }
    }
}

impl SessionEntry {
    pub fn is_running(&self) -> bool {
        match self {
            SessionEntry::Session(session) => session.calls.any_running(),
            SessionEntry::Duplex(client) => client.is_running(),
        }
    }

    fn identity(&self) -> &Identity {
        match self {
            SessionEntry::Session(session) => &session.identity,
            SessionEntry::Duplex(client) => &client.identity,
        }
    }

    fn idle(&self, now: Instant) -> Duration {
        match self {
            SessionEntry::Session(session) => session.idle(now),
            SessionEntry::Duplex(client) => client.idle(now),
        }
    }

    fn close(&self) {
        match self {
            SessionEntry::Session(session) => session.close(),
            SessionEntry::Duplex(client) => client.close(),
        }
    }
}

fn longest_idle(table: &mut HashMap<Box<str>, SessionEntry>) -> Option<SessionEntry> {
    let now = Instant::now();
    let (id, idle) = table.iter().map(|(id, entry)| (id, entry.idle(now))).max_by_key(|(_, idle)| *idle)?;
    let id = id.clone();
    if idle < MIN_IDLE {
        return None;
    }
    table.remove(&id)
}

impl Session {
    pub fn new(identity: Identity, handshake: Handshake) -> Session {
        let state = State {
            last_used: Instant::now(),
            next: 0,
            pending_requests: Vec::new(),
            outboxes: VecDeque::new(),
            subscriptions: HashMap::new(),
            notifications: VecDeque::new(),
            listener: None,
            closed: false,
        };
        Session {
            identity,
            handshake,
            calls: RunningCalls::default(),
            log: AtomicU8::new(LogLevel::Info as u8),
            open_streams: AtomicUsize::new(0),
            bytes: Arc::default(),
            state: Mutex::new(state),
        }
    }

    /// The session is in use now: its idle time starts again.
    pub fn touch(&self) {
        lock(&self.state).last_used = Instant::now();
    }

    pub fn open_stream(self: &Arc<Self>) -> OpenStream {
        self.open_streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.clone())
    }

    pub fn set_log(&self, level: LogLevel) {
        self.log.store(level as u8, Ordering::Relaxed);
    }

    pub fn logs_at(&self, level: LogLevel) -> bool {
        level as u8 >= self.log.load(Ordering::Relaxed)
    }

    /// An outbox for the messages of one POST.
    pub fn new_outbox(
        &self,
        pending_responses: usize,
        options: &McpOptions,
        buffers: &Arc<Buffers>,
    ) -> Arc<Outbox> {
        let mut state = lock(&self.state);
        state.next += 1;
        let bounds = Bounds { messages: MAX_STREAM_MESSAGES, bytes: options.max_queued_bytes };
        let outbox = Outbox::new(state.next, pending_responses, bounds, buffers, &self.bytes);
        if state.outboxes.len() >= MAX_KEPT {
            state.drop_finished(MAX_KEPT - 1);
        }
        state.outboxes.push_back(outbox.clone());
        outbox
    }

    /// Keeps the streams of the session within its bound: the oldest finished ones go first, then notifications.
    pub fn make_room(&self, max_bytes: usize) {
        let is_over = || self.bytes.load(Ordering::Relaxed) > max_bytes;
        if !is_over() {
            return;
        }
        let mut state = lock(&self.state);
        // One result alone may be larger.
        let newest = state.outboxes.back().map(|outbox| outbox.key);
        for may_be_read in [false, true] {
            state.outboxes.retain(|outbox| {
                let goes = is_over()
                    && Some(outbox.key) != newest
                    && outbox.finished_at().is_some()
                    && (may_be_read || !outbox.is_read());
                if goes {
                    // A client that is reading it is disconnected.
                    outbox.release();
                }
                !goes
            });
        }
        if is_over() {
            state.outboxes.iter().for_each(|outbox| outbox.drop_notifications());
        }
    }

    /// The outbox can no longer be resumed.
    pub fn remove_outbox(&self, key: u64) {
        lock(&self.state).outboxes.retain(|outbox| outbox.key != key);
    }

    /// `None` when it is no longer kept.
    pub fn find_outbox(&self, key: u64) -> Option<Arc<Outbox>> {
        let state = lock(&self.state);
        state.outboxes.iter().find(|outbox| outbox.key == key && !outbox.is_released()).cloned()
    }

    /// An id for a request to the client and a channel for its response; `None` when too many are open.
    pub fn register_request(&self) -> Option<(u64, oneshot::Receiver<Result<Bytes, String>>)> {
        let mut state = lock(&self.state);
        if state.pending_requests.len() >= MAX_PENDING_REQUESTS || state.closed {
            return None;
        }
        state.next += 1;
        let (send, receive) = oneshot::channel();
        let number = state.next;
        state.pending_requests.push((number, send));
        Some((number, receive))
    }

    pub fn cancel_request(&self, number: u64) {
        lock(&self.state).pending_requests.retain(|(known, _)| *known != number);
    }

    pub fn resolve_request(&self, number: u64, answer: Result<Bytes, String>) {
        let mut state = lock(&self.state);
        if let Some(index) = state.pending_requests.iter().position(|(known, _)| *known == number) {
            // Fails when the tool no longer waits for the answer.
            let _ = state.pending_requests.swap_remove(index).1.send(answer);
        }
    }

    /// `false` when the session has too many subscriptions.
    pub fn subscribe(&self, uri: String, watch: WatchGuard, request: RequestId) -> bool {
        let mut state = lock(&self.state);
        let room = state.subscriptions.len() < MAX_SUBSCRIPTIONS || state.subscriptions.contains_key(&uri);
        if room && !state.closed {
            state.subscriptions.insert(uri, (watch, request));
        }
        room
    }

    pub fn unsubscribe(&self, uri: &str) {
        let watch = lock(&self.state).subscriptions.remove(uri);
        drop(watch);
    }

    /// The id of the request that subscribed to the URI.
    pub fn subscription_request(&self, uri: &str) -> Option<RequestId> {
        lock(&self.state).subscriptions.get(uri).map(|(_, request)| request.clone())
    }

    pub fn is_subscribed(&self, uri: &str) -> bool {
        lock(&self.state).subscriptions.contains_key(uri)
    }

    pub fn subscribed_uris(&self) -> Vec<String> {
        lock(&self.state).subscriptions.keys().cloned().collect()
    }

    /// Ends the earlier notification stream. Resolves when the new one must end.
    pub fn take_notification_stream(&self) -> oneshot::Receiver<()> {
        let (send, receive) = oneshot::channel();
        let mut state = lock(&self.state);
        if !state.closed {
            state.listener = Some(send);
        }
        receive
    }

    /// Stores a message of the notification stream and returns its number.
    pub fn store_notification(&self, message: Bytes) -> u64 {
        let mut state = lock(&self.state);
        state.next += 1;
        let number = state.next;
        if state.notifications.len() >= MAX_STORED_NOTIFICATIONS {
            state.notifications.pop_front();
        }
        state.notifications.push_back((number, message));
        number
    }

    /// Whether a notification with this number was sent on the notification stream.
    pub fn has_sent(&self, number: u64) -> bool {
        lock(&self.state).notifications.back().is_some_and(|(newest, _)| number <= *newest)
    }

    pub fn notifications_after(&self, number: u64) -> Vec<(u64, Bytes)> {
        lock(&self.state).notifications.iter().filter(|(known, _)| *known > number).cloned().collect()
    }

    /// Cancels all calls and ends all streams.
    pub fn close(&self) {
        self.calls.close();
        let mut state = lock(&self.state);
        state.closed = true;
        state.listener = None;
        state.pending_requests.clear();
        state.outboxes.clear();
        let subscriptions = std::mem::take(&mut state.subscriptions);
        drop(state);
        drop(subscriptions);
    }

    fn idle(&self, now: Instant) -> Duration {
        let state = lock(&self.state);
        let has_listener = state.listener.as_ref().is_some_and(|listener| !listener.is_closed());
        let is_read = self.open_streams.load(Ordering::Relaxed) > 0;
        if has_listener || is_read || self.calls.any_running() {
            return Duration::ZERO;
        }
        now.saturating_duration_since(state.last_used)
    }

    fn drop_expired_outboxes(&self, now: Instant) {
        let mut state = lock(&self.state);
        let old = |since: Instant| now.saturating_duration_since(since) > RESUME_WINDOW;
        state.outboxes.retain(|outbox| !outbox.is_released() && !outbox.finished_at().is_some_and(old));
        state.outboxes.shrink_to_fit();
    }
}

impl State {
    /// Leaves at most so many finished outboxes, the newest.
    fn drop_finished(&mut self, most: usize) {
        let finished = self.outboxes.iter().filter(|outbox| outbox.finished_at().is_some()).count();
        let mut surplus = finished.saturating_sub(most);
        self.outboxes.retain(|outbox| {
            let goes = surplus > 0 && outbox.finished_at().is_some();
            surplus -= usize::from(goes);
            !goes
        });
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.touch();
        self.0.open_streams.fetch_sub(1, Ordering::Relaxed);
    }
}
