//! Sessions of handshake clients: bounded in number and idle time, bound to whoever opened them.

use super::calls::Calls;
use super::lock;
use super::outbox::Outbox;
use super::peer::Peer;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use toolyard_engine::Watch;
use toolyard_engine::clock::Random;
use toolyard_protocol::{Identity, LogLevel};
use toolyard_wire::jsonrpc::RequestId;
use toolyard_wire::mcp::hello::Hello;

/// How long a finished stream can be come back to.
const RESUME_FOR: Duration = Duration::from_secs(60);
/// Streams of one session that are kept.
const MAX_STREAMS: usize = 64;
/// Addresses that one session may watch.
const MAX_WATCHED: usize = 1000;
/// Questions of ours that may be open.
const MAX_ASKED: usize = 100;
/// Events of the general stream that can be come back to.
const MAX_GENERAL: usize = 32;
/// A session is not thrown out for a newer one before this.
const MIN_IDLE: Duration = Duration::from_secs(60);

pub(super) struct Sessions {
    most: usize,
    table: Mutex<HashMap<Box<str>, Seat>>,
}

/// Whoever takes a place among the sessions.
#[derive(Clone)]
pub(super) enum Seat {
    /// Streamable HTTP: each request comes by itself.
    Session(Arc<Session>),
    /// One line that is open as long as the conversation.
    Peer(Arc<Peer>),
}

pub(super) struct Session {
    pub identity: Identity,
    pub hello: Hello,
    pub calls: Calls,
    log: AtomicU8,
    state: Mutex<State>,
}

/// Everything starts empty and takes no memory until it is used.
struct State {
    touched: Instant,
    next: u64,
    asked: Vec<(u64, oneshot::Sender<Result<Bytes, String>>)>,
    streams: VecDeque<Arc<Outbox>>,
    watched: HashMap<String, (Watch, RequestId)>,
    general: VecDeque<(u64, Bytes)>,
    /// Ends the general stream that is open now.
    listener: Option<oneshot::Sender<()>>,
    closed: bool,
}

impl Sessions {
    pub fn new(most: usize) -> Sessions {
        Sessions { most, table: Mutex::default() }
    }

    /// A new session under an unguessable id; `None` when there are too many and none is idle.
    pub fn open(
        &self,
        random: &dyn Random,
        identity: Identity,
        hello: Hello,
    ) -> Option<(String, Arc<Session>)> {
        let session = Arc::new(Session::new(identity, hello));
        let id = self.seat(random, Seat::Session(session.clone()))?;
        Some((id, session))
    }

    /// The same for a client on a line of its own.
    pub fn open_line(&self, random: &dyn Random, peer: Arc<Peer>) -> Option<String> {
        self.seat(random, Seat::Peer(peer))
    }

    fn seat(&self, random: &dyn Random, seat: Seat) -> Option<String> {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut table = lock(&self.table);
        let thrown_out = if table.len() >= self.most { Some(longest_idle(&mut table)?) } else { None };
        table.insert(id.as_str().into(), seat);
        drop(table);
        if let Some(seat) = thrown_out {
            seat.close();
        }
        Some(id)
    }

    /// The session, for its own caller only: to others it does not exist.
    pub fn find(&self, id: &str, identity: &Identity) -> Option<Arc<Session>> {
        let found = lock(&self.table).get(id).filter(|seat| seat.identity() == identity).cloned();
        let Some(Seat::Session(session)) = found else { return None };
        lock(&session.state).touched = Instant::now();
        Some(session)
    }

    pub fn find_line(&self, id: &str, identity: &Identity) -> Option<Arc<Peer>> {
        let found = lock(&self.table).get(id).filter(|seat| seat.identity() == identity).cloned();
        let Some(Seat::Peer(peer)) = found else { return None };
        Some(peer)
    }

    /// Ends a session and everything that runs in it.
    pub fn remove(&self, id: &str, identity: &Identity) -> bool {
        let seat = {
            let mut table = lock(&self.table);
            match table.get(id) {
                Some(seat) if seat.identity() == identity => table.remove(id),
                _ => None,
            }
        };
        if let Some(seat) = &seat {
            seat.close();
        }
        seat.is_some()
    }

    /// Ends every session and gives them back.
    pub fn clear(&self) -> Vec<Seat> {
        let table = std::mem::take(&mut *lock(&self.table));
        table.into_values().inspect(Seat::close).collect()
    }

    pub fn sweep(&self, now: Instant, idle: Duration) {
        let mut old = Vec::new();
        lock(&self.table).retain(|_, seat| {
            if let Seat::Session(session) = seat {
                session.tidy(now);
            }
            let keep = seat.idle(now) < idle;
            if !keep {
                old.push(seat.clone());
            }
            keep
        });
        for seat in old {
            seat.close();
        }
    }
}

impl Seat {
    pub fn is_running(&self) -> bool {
        match self {
            Seat::Session(session) => session.calls.are_running(),
            Seat::Peer(peer) => peer.is_running(),
        }
    }

    fn identity(&self) -> &Identity {
        match self {
            Seat::Session(session) => &session.identity,
            Seat::Peer(peer) => &peer.identity,
        }
    }

    fn idle(&self, now: Instant) -> Duration {
        match self {
            Seat::Session(session) => session.idle(now),
            Seat::Peer(peer) => peer.idle(now),
        }
    }

    fn close(&self) {
        match self {
            Seat::Session(session) => session.close(),
            Seat::Peer(peer) => peer.close(),
        }
    }
}

fn longest_idle(table: &mut HashMap<Box<str>, Seat>) -> Option<Seat> {
    let now = Instant::now();
    let (id, idle) = table.iter().map(|(id, seat)| (id, seat.idle(now))).max_by_key(|(_, idle)| *idle)?;
    let id = id.clone();
    if idle < MIN_IDLE {
        return None;
    }
    table.remove(&id)
}

impl Session {
    pub fn new(identity: Identity, hello: Hello) -> Session {
        let state = State {
            touched: Instant::now(),
            next: 0,
            asked: Vec::new(),
            streams: VecDeque::new(),
            watched: HashMap::new(),
            general: VecDeque::new(),
            listener: None,
            closed: false,
        };
        let log = AtomicU8::new(LogLevel::Info as u8);
        Session { identity, hello, calls: Calls::default(), log, state: Mutex::new(state) }
    }

    pub fn set_log(&self, level: LogLevel) {
        self.log.store(level as u8, Ordering::Relaxed);
    }

    pub fn wants(&self, level: LogLevel) -> bool {
        level as u8 >= self.log.load(Ordering::Relaxed)
    }

    /// A box for the messages of one POST.
    pub fn stream(&self, due: usize) -> Arc<Outbox> {
        let mut state = lock(&self.state);
        state.next += 1;
        let outbox = Arc::new(Outbox::new(state.next, due));
        if state.streams.len() >= MAX_STREAMS {
            state.streams.pop_front();
        }
        state.streams.push_back(outbox.clone());
        outbox
    }

    /// The box can't be come back to any more.
    pub fn forget(&self, key: u64) {
        lock(&self.state).streams.retain(|outbox| outbox.key != key);
    }

    pub fn find_stream(&self, key: u64) -> Option<Arc<Outbox>> {
        lock(&self.state).streams.iter().find(|outbox| outbox.key == key).cloned()
    }

    /// Makes a number for a request of ours and a place for its answer; `None` when too many are open.
    pub fn asking(&self) -> Option<(u64, oneshot::Receiver<Result<Bytes, String>>)> {
        let mut state = lock(&self.state);
        if state.asked.len() >= MAX_ASKED || state.closed {
            return None;
        }
        state.next += 1;
        let (send, receive) = oneshot::channel();
        let number = state.next;
        state.asked.push((number, send));
        Some((number, receive))
    }

    pub fn no_longer_asking(&self, number: u64) {
        lock(&self.state).asked.retain(|(known, _)| *known != number);
    }

    pub fn answered(&self, number: u64, answer: Result<Bytes, String>) {
        let mut state = lock(&self.state);
        if let Some(place) = state.asked.iter().position(|(known, _)| *known == number) {
            // Fails when the tool no longer waits; then nobody needs the answer.
            let _ = state.asked.swap_remove(place).1.send(answer);
        }
    }

    /// `false` when the session watches too much already.
    pub fn watch(&self, uri: String, watch: Watch, request: RequestId) -> bool {
        let mut state = lock(&self.state);
        let room = state.watched.len() < MAX_WATCHED || state.watched.contains_key(&uri);
        if room && !state.closed {
            state.watched.insert(uri, (watch, request));
        }
        room
    }

    pub fn unwatch(&self, uri: &str) {
        let watch = lock(&self.state).watched.remove(uri);
        drop(watch);
    }

    /// The request that began to watch the address.
    pub fn subscription(&self, uri: &str) -> Option<RequestId> {
        lock(&self.state).watched.get(uri).map(|(_, request)| request.clone())
    }

    pub fn watches(&self, uri: &str) -> bool {
        lock(&self.state).watched.contains_key(uri)
    }

    pub fn watched(&self) -> Vec<String> {
        lock(&self.state).watched.keys().cloned().collect()
    }

    /// Takes over the general stream: the one before ends when the receiver of its sender hears of it.
    pub fn listen(&self) -> oneshot::Receiver<()> {
        let (send, receive) = oneshot::channel();
        let mut state = lock(&self.state);
        if !state.closed {
            state.listener = Some(send);
        }
        receive
    }

    /// Keeps a message of the general stream and gives its number.
    pub fn general(&self, message: Bytes) -> u64 {
        let mut state = lock(&self.state);
        state.next += 1;
        let number = state.next;
        if state.general.len() >= MAX_GENERAL {
            state.general.pop_front();
        }
        state.general.push_back((number, message));
        number
    }

    pub fn general_after(&self, number: u64) -> Vec<(u64, Bytes)> {
        lock(&self.state).general.iter().filter(|(known, _)| *known > number).cloned().collect()
    }

    /// Cancels what runs and ends what is open.
    pub fn close(&self) {
        self.calls.close();
        let mut state = lock(&self.state);
        state.closed = true;
        state.listener = None;
        state.asked.clear();
        state.streams.clear();
        let watched = std::mem::take(&mut state.watched);
        drop(state);
        drop(watched);
    }

    fn idle(&self, now: Instant) -> Duration {
        let state = lock(&self.state);
        let listened = state.listener.as_ref().is_some_and(|listener| !listener.is_closed());
        if listened || self.calls.are_running() {
            return Duration::ZERO;
        }
        now.saturating_duration_since(state.touched)
    }

    fn tidy(&self, now: Instant) {
        let mut state = lock(&self.state);
        let old = |since: Instant| now.saturating_duration_since(since) > RESUME_FOR;
        state.streams.retain(|outbox| !outbox.over_since().is_some_and(old));
        state.streams.shrink_to_fit();
    }
}
