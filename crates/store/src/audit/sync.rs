//! Makes records durable: a background thread that syncs the segments, then stores heads.

use super::AuditError;
use super::writer::SegmentProgress;
use super::writer::{Shared, lock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use toolyard_protocol::Id;

/// Delay from the first unsynced record to its sync; half of the promised 100 ms.
const DELAY: Duration = Duration::from_millis(50);

/// How far the log is durable.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Every record up to this number is durable.
    pub upto: u64,
    /// Number of sync passes so far.
    pub passes: u64,
    /// Why the last pass failed.
    pub fault: Option<AuditError>,
}

/// Signals from callers to the syncer.
#[derive(Default)]
pub(super) struct SyncSignal {
    /// Something was written since the last pass began. The hot path only swaps this flag.
    dirty: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    thread: Option<JoinHandle<()>>,
    /// A caller waits for the next pass.
    urgent: bool,
    stop: bool,
}

/// Signals that something was written; starts the syncer on first use.
pub(super) fn mark_dirty(shared: &Arc<Shared>) {
    if shared.signal.dirty.swap(true, Ordering::SeqCst) {
        return;
    }
    let mut state = lock(&shared.signal.state);
    if state.thread.is_none() && !state.stop {
        let for_thread = shared.clone();
        let started = thread::Builder::new().name("audit-sync".into()).spawn(move || run(&for_thread));
        match started {
            Ok(thread) => state.thread = Some(thread),
            // The thread cannot be started: the caller syncs, which is slow but durable in time.
            Err(_) => {
                drop(state);
                sync_pass(shared, &mut HeadState::default(), true);
                return;
            }
        }
    }
    shared.signal.changed.notify_one();
}

/// Requests a pass now.
pub(super) fn request_sync(shared: &Shared) {
    lock(&shared.signal.state).urgent = true;
    shared.signal.changed.notify_one();
}

/// Ends the thread after a last pass.
pub(super) fn stop(shared: &Shared) {
    let thread = {
        let mut state = lock(&shared.signal.state);
        state.stop = true;
        state.thread.take()
    };
    shared.signal.changed.notify_one();
    if let Some(thread) = thread {
        let _ = thread.join();
    }
}

/// Syncs and stores heads in the calling thread.
pub(super) fn flush(shared: &Shared) {
    sync_pass(shared, &mut HeadState::default(), true);
}

fn run(shared: &Shared) {
    let mut heads = HeadState::default();
    loop {
        let stop = wait(shared, heads.behind);
        shared.signal.dirty.store(false, Ordering::SeqCst);
        if shared.retry() {
            // Retried by the next pass, without another call.
            shared.signal.dirty.store(true, Ordering::SeqCst);
        }
        let due = stop || heads.stored.is_none_or(|at| at.elapsed() >= DELAY);
        sync_pass(shared, &mut heads, due);
        if stop {
            return;
        }
    }
}

/// Sleeps until there is something to do. Returns whether to stop afterwards.
fn wait(shared: &Shared, heads_behind: bool) -> bool {
    let signal = &shared.signal;
    let mut state = lock(&signal.state);
    while !(state.stop || state.urgent || heads_behind || signal.dirty.load(Ordering::SeqCst)) {
        state = signal.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    let until = Instant::now() + DELAY;
    while !(state.stop || state.urgent) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        state = signal.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    state.urgent = false;
    state.stop
}

/// The syncer's state of stored heads.
#[derive(Default)]
struct HeadState {
    stored: Option<Instant>,
    /// Records were synced for a waiting caller, but their head is not stored yet.
    behind: bool,
    /// Segment and records of the head stored last.
    last: Option<(Id, u64)>,
}

/// Syncs every segment that grew; stores heads when they are due. Callers that wait for their record do not
/// wait for the head: under `sync = "always"` that would double the cost of each group of calls.
fn sync_pass(shared: &Shared, heads: &mut HeadState, due: bool) {
    let _one = lock(&shared.passes);
    let (upto, reached) = {
        let mut combiner = lock(&shared.writer);
        (combiner.writer.done(), combiner.writer.segments_to_sync())
    };
    let synced = reached.iter().try_for_each(|one| sync_segment(shared, one));
    shared.progress.send_modify(|progress| {
        progress.passes += 1;
        progress.fault = synced.as_ref().err().cloned();
        if synced.is_ok() {
            progress.upto = progress.upto.max(upto);
        }
    });
    if let Err(fault) = synced.and_then(|()| store_heads(heads, &reached, due)) {
        let mut combiner = lock(&shared.writer);
        combiner.writer.return_unsynced(reached);
        if matches!(fault, AuditError::Unsynced { .. }) {
            // The kernel may have dropped written pages, so nothing written later can be trusted either.
            combiner.writer.stop(fault);
        }
        heads.behind = true;
    }
}

fn store_heads(heads: &mut HeadState, reached: &[SegmentProgress], due: bool) -> Result<(), AuditError> {
    heads.behind = false;
    for SegmentProgress { files, head, closed } in reached {
        // A closed segment is not listed again.
        if !due && !closed {
            heads.behind = true;
        } else if heads.last != Some((files.id, head.records)) {
            let stored = lock(&files.head).store(*head);
            stored.map_err(|e| AuditError::io("store the head of", &files.path, e))?;
            heads.last = Some((files.id, head.records));
            heads.stored = Some(Instant::now());
        }
    }
    Ok(())
}

fn sync_segment(shared: &Shared, reached: &SegmentProgress) -> Result<(), AuditError> {
    let files = &reached.files;
    files
        .segment
        .sync_data()
        .map_err(|e| AuditError::Unsynced { path: files.path.clone(), source: Arc::new(e) })?;
    if !files.announced.load(Ordering::Relaxed) {
        let folder = lock(&shared.writer).writer.folder.clone();
        folder.sync()?;
        folder.set_latest(files.id)?;
        files.announced.store(true, Ordering::Relaxed);
    }
    Ok(())
}
