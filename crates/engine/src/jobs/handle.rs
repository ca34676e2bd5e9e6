//! A job of this process as its task, its listeners and those who stop it see it.

use super::reports::Reports;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};
use toolyard_protocol::{Error, ErrorKind, Id, InputRequest, InputResponse, LogLine, Outcome, Progress};

/// Updates kept for listeners. Missing some does no harm: questions stay open, and the outcome is kept apart.
const UPDATE_BUFFER: usize = 64;
/// Questions that one job may have open.
const MAX_QUESTIONS: usize = 64;

pub struct JobHandle {
    pub id: Id,
    status: watch::Sender<JobStatus>,
    updates: Mutex<Updates>,
    questions: Mutex<Questions>,
    pub reports: Reports,
}

/// What others wait for.
#[derive(Clone, Default)]
pub struct JobStatus {
    pub stop: StopSignal,
    /// The tool may have run.
    has_begun: bool,
    /// The tool has detached from its caller.
    pub is_detached: bool,
    /// The number of the newest update.
    newest: u64,
    pub end: End,
    /// Callers that wait for the outcome in their request.
    waiting: usize,
    /// The end is being written for a waiting caller.
    is_ending: bool,
}

/// Why a job must stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopSignal {
    #[default]
    None,
    /// Cancellation was requested.
    Cancelled,
    /// The process is shutting down.
    ShuttingDown,
}

/// How far the end of a job is.
#[derive(Clone, Default)]
pub enum End {
    #[default]
    Running,
    /// The work is over, and its end is being written.
    Stopped,
    /// `None` when the row is left to another process.
    Ended(Option<Arc<Outcome>>),
}

/// A message of a running job to its listeners.
#[derive(Clone, Debug)]
pub enum JobUpdate {
    Progress(Progress),
    Log(LogLine),
    /// The question with this number is open.
    Asked(u64),
}

#[derive(Default)]
struct Updates {
    newest: u64,
    buffer: VecDeque<JobUpdate>,
}

#[derive(Default)]
struct Questions {
    next: u64,
    open: HashMap<String, Question>,
}

struct Question {
    number: u64,
    request: InputRequest,
    answer: oneshot::Sender<Result<InputResponse, Error>>,
    /// Closed with the question.
    is_open: watch::Sender<()>,
}

/// An open question as a listener gets it.
pub struct OpenQuestion {
    pub number: u64,
    pub request: InputRequest,
    is_open: watch::Receiver<()>,
}

impl OpenQuestion {
    /// Waits until the question is answered or withdrawn.
    pub async fn closed(&mut self) {
        while self.is_open.changed().await.is_ok() {}
    }
}

impl JobHandle {
    pub fn new(id: Id, stop: StopSignal) -> Arc<JobHandle> {
        Arc::new(JobHandle {
            id,
            status: watch::Sender::new(JobStatus { stop, ..JobStatus::default() }),
            updates: Mutex::default(),
            questions: Mutex::default(),
            reports: Reports::default(),
        })
    }

    pub fn status(&self) -> watch::Receiver<JobStatus> {
        self.status.subscribe()
    }

    pub fn stop_signal(&self) -> StopSignal {
        self.status.borrow().stop
    }

    /// The first signal counts.
    pub fn stop(&self, signal: StopSignal) {
        self.status.send_if_modified(|status| {
            let is_first = status.stop == StopSignal::None;
            if is_first {
                status.stop = signal;
            }
            is_first
        });
    }

    /// From here on the tool may have run, unless a stop signal came first.
    pub fn begin_work(&self) -> Result<(), StopSignal> {
        let mut stop = StopSignal::None;
        self.status.send_if_modified(|status| {
            stop = status.stop;
            status.has_begun |= stop == StopSignal::None;
            false
        });
        if stop == StopSignal::None { Ok(()) } else { Err(stop) }
    }

    pub fn has_begun(&self) -> bool {
        self.status.borrow().has_begun
    }

    /// Waits for a stop signal.
    pub async fn stopped(&self) -> StopSignal {
        let mut status = self.status();
        let stop = status.wait_for(|status| status.stop != StopSignal::None).await;
        // The sender is in this handle.
        stop.map_or(StopSignal::ShuttingDown, |status| status.stop)
    }

    pub fn detach(&self) {
        self.status.send_modify(|status| status.is_detached = true);
    }

    /// The work is over. Only those who stop a job wait for it, so that others need not be woken twice.
    pub fn set_stopped(&self) {
        self.status.send_if_modified(|status| {
            status.end = End::Stopped;
            status.stop != StopSignal::None
        });
    }

    pub fn set_end(&self, end: End) {
        self.status.send_modify(|status| status.end = end);
    }

    pub fn is_ended(&self) -> bool {
        matches!(self.status.borrow().end, End::Ended(_))
    }

    /// Before the end is written: whether a caller waits for it in its request, and will until it is written.
    pub fn begin_end(&self) -> bool {
        let mut is_awaited = false;
        self.status.send_if_modified(|status| {
            is_awaited = status.waiting > 0;
            status.is_ending = is_awaited;
            false
        });
        is_awaited
    }

    /// The end could not be written: callers may stop waiting.
    pub fn end_failed(&self) {
        self.status.send_modify(|status| status.is_ending = false);
    }

    pub fn send(&self, update: JobUpdate) {
        let newest = {
            let mut updates = lock(&self.updates);
            updates.newest += 1;
            updates.buffer.push_back(update);
            if updates.buffer.len() > UPDATE_BUFFER {
                updates.buffer.pop_front();
            }
            updates.newest
        };
        self.status.send_modify(|status| status.newest = status.newest.max(newest));
    }

    pub fn questions(&self) -> Vec<InputRequest> {
        self.open_questions().into_iter().map(|question| question.request).collect()
    }

    /// Ordered by key.
    pub fn open_questions(&self) -> Vec<OpenQuestion> {
        let questions = lock(&self.questions);
        let mut open: Vec<OpenQuestion> = questions.open.values().map(Question::opened).collect();
        open.sort_by(|a, b| a.request.key.cmp(&b.request.key));
        open
    }

    fn question(&self, number: u64) -> Option<OpenQuestion> {
        lock(&self.questions).open.values().find(|question| question.number == number).map(Question::opened)
    }

    /// Opens a question; the answer comes through the channel. It is withdrawn when the channel is dropped.
    pub fn ask(self: &Arc<Self>, request: InputRequest) -> Result<Asked, Error> {
        let (answer, answered) = oneshot::channel();
        let (number, key) = {
            let mut questions = lock(&self.questions);
            let key = request.key.clone();
            if questions.open.len() >= MAX_QUESTIONS || questions.open.contains_key(&key) {
                let message = format!("the question '{key}' is already open, or {MAX_QUESTIONS} others are");
                return Err(
                    Error::new(ErrorKind::ToolFailed, message).hint("give each question a key of its own")
                );
            }
            questions.next += 1;
            let number = questions.next;
            let is_open = watch::Sender::new(());
            questions.open.insert(key.clone(), Question { number, request, answer, is_open });
            (number, key)
        };
        self.send(JobUpdate::Asked(number));
        Ok(Asked { handle: self.clone(), number, key, answered })
    }

    /// Answers a question; `false` when no question with this key is open. With a number, only that one.
    pub fn answer(&self, key: &str, number: Option<u64>, answer: Result<InputResponse, Error>) -> bool {
        let question = {
            let mut questions = lock(&self.questions);
            let is_meant =
                questions.open.get(key).is_some_and(|open| number.is_none_or(|n| n == open.number));
            if is_meant { questions.open.remove(key) } else { None }
        };
        question.is_some_and(|question| question.answer.send(answer).is_ok())
    }
}

impl Question {
    fn opened(&self) -> OpenQuestion {
        let (number, request) = (self.number, self.request.clone());
        OpenQuestion { number, request, is_open: self.is_open.subscribe() }
    }
}

/// An open question of a tool; dropping it withdraws the question.
pub struct Asked {
    handle: Arc<JobHandle>,
    number: u64,
    key: String,
    answered: oneshot::Receiver<Result<InputResponse, Error>>,
}

impl Asked {
    pub async fn answer(&mut self) -> Result<InputResponse, Error> {
        let ended = || Error::new(ErrorKind::Cancelled, "the job has ended");
        (&mut self.answered).await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut questions = lock(&self.handle.questions);
        if questions.open.get(&self.key).is_some_and(|open| open.number == self.number) {
            questions.open.remove(&self.key);
        }
    }
}

/// A caller that follows a job of this process.
pub struct JobListener {
    handle: Arc<JobHandle>,
    pub status: watch::Receiver<JobStatus>,
    /// The newest update that it has seen.
    seen: u64,
    is_waiting: bool,
}

impl JobListener {
    pub fn new(handle: Arc<JobHandle>) -> JobListener {
        let status = handle.status();
        let seen = lock(&handle.updates).newest;
        JobListener { handle, status, seen, is_waiting: false }
    }

    /// Counts as a caller that waits for the outcome, until it is dropped or leaves.
    pub fn begin_waiting(&mut self) {
        self.is_waiting = true;
        self.handle.status.send_if_modified(|status| {
            status.waiting += 1;
            false
        });
    }

    /// Stops waiting; `false` while the end is being written for this caller.
    pub fn try_leave(&mut self) -> bool {
        let mut is_ending = false;
        self.handle.status.send_if_modified(|status| {
            is_ending = status.is_ending;
            if !is_ending {
                status.waiting -= usize::from(self.is_waiting);
            }
            false
        });
        self.is_waiting &= is_ending;
        !is_ending
    }

    /// The end of the job, or the current state when its end cannot be written.
    pub async fn ended(&mut self) -> End {
        let ended = |status: &JobStatus| matches!(status.end, End::Ended(_)) || !status.is_ending;
        self.status.wait_for(ended).await.map_or(End::Ended(None), |status| status.end.clone())
    }

    /// The updates since the last call, and whether some were missed.
    pub fn new_updates(&mut self) -> (Vec<JobUpdate>, bool) {
        let updates = lock(&self.handle.updates);
        let missed = updates.newest - self.seen;
        self.seen = updates.newest;
        let kept = updates.buffer.len().min(missed as usize);
        let new = updates.buffer.iter().skip(updates.buffer.len() - kept).cloned().collect();
        (new, missed as usize > kept)
    }

    pub fn question(&self, number: u64) -> Option<OpenQuestion> {
        self.handle.question(number)
    }

    pub fn open_questions(&self) -> Vec<OpenQuestion> {
        self.handle.open_questions()
    }

    pub fn answer(&self, key: &str, number: u64, answer: Result<InputResponse, Error>) {
        self.handle.answer(key, Some(number), answer);
    }
}

impl Drop for JobListener {
    fn drop(&mut self) {
        if self.is_waiting {
            self.handle.status.send_if_modified(|status| {
                status.waiting -= 1;
                false
            });
        }
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::array::from_fn;

    fn handle() -> Arc<JobHandle> {
        JobHandle::new(Id::from_parts(1, [0; 10]), StopSignal::None)
    }

    fn waiting(handle: &Arc<JobHandle>) -> JobListener {
        let mut listener = JobListener::new(handle.clone());
        listener.begin_waiting();
        listener
    }

    #[test]
    fn a_listener_gets_the_last_64_updates_and_is_told_when_it_missed_some() {
        for (sent, expected) in [(0, (0, false)), (3, (3, false)), (64, (64, false)), (65, (64, true))] {
            let handle = handle();
            handle.send(JobUpdate::Asked(0));
            let mut listener = JobListener::new(handle.clone());
            (1..=sent).for_each(|number| handle.send(JobUpdate::Asked(number)));
            let (updates, missed) = listener.new_updates();
            assert_eq!((updates.len(), missed), expected, "{sent} sent");
            let first = updates.first().map(|update| format!("{update:?}"));
            assert_eq!(first, (sent > 0).then(|| format!("Asked({})", sent - expected.0 as u64 + 1)));
            assert_eq!(listener.new_updates().0.len(), 0, "each one once");
        }
    }

    #[test]
    fn an_end_is_awaited_until_the_last_caller_has_left() {
        let handle = handle();
        let [mut first, second, third] = from_fn(|_| waiting(&handle));
        let mut only_listens = JobListener::new(handle.clone());
        assert!(first.try_leave() && only_listens.try_leave());
        drop((first, only_listens, second));
        assert!(handle.begin_end(), "the third one waits");
        handle.end_failed();
        drop(third);
        assert!(!handle.begin_end());
    }

    #[test]
    fn a_caller_whose_end_is_being_written_stays_until_that_is_done_or_fails() {
        let handle = handle();
        let mut caller = waiting(&handle);
        handle.set_stopped();
        assert!(handle.begin_end() && !caller.try_leave());
        assert!(caller.ended().now_or_never().is_none());
        handle.end_failed();
        assert!(matches!(caller.ended().now_or_never(), Some(End::Stopped)));
        // It did not leave the first time, so the next try is for it too.
        assert!(handle.begin_end() && !caller.try_leave());
        handle.set_end(End::Ended(None));
        assert!(matches!(caller.ended().now_or_never(), Some(End::Ended(None))));
    }

    #[test]
    fn the_end_of_the_work_wakes_those_who_stop_the_job_and_nobody_else() {
        let handle = handle();
        let mut status = handle.status();
        handle.set_stopped();
        assert!(!status.has_changed().unwrap());
        handle.stop(StopSignal::Cancelled);
        status.mark_unchanged();
        handle.set_stopped();
        assert!(status.has_changed().unwrap() && matches!(status.borrow().end, End::Stopped));
    }
}
