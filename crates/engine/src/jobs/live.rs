//! The jobs that run in this process: how to stop them, what they ask, who listens.

use super::options::Options;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot, watch};
use toolyard_protocol::{Answer, Error, ErrorKind, Id, Identity, LogLine, Outcome, Progress, Question};

/// What a listener may have missed without harm: it hears the end by another way.
const NOTES: usize = 64;
/// Questions that one job may have open.
const MAX_QUESTIONS: usize = 64;

pub struct Live {
    jobs: Mutex<HashMap<Id, Running>>,
    places: Arc<Semaphore>,
    of_caller: Mutex<HashMap<Identity, Arc<Semaphore>>>,
    per_caller: usize,
    closing: watch::Sender<bool>,
}

struct Running {
    stop: watch::Sender<Stop>,
    end: watch::Receiver<Option<Arc<Outcome>>>,
    notes: broadcast::Sender<Note>,
    detached: watch::Receiver<bool>,
    questions: HashMap<String, (Question, oneshot::Sender<Result<Answer, Error>>)>,
}

/// Why work is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    No,
    /// Someone asked for it.
    Cancelled,
    /// The process ends.
    ShuttingDown,
}

/// What a running job tells those who wait for it.
#[derive(Clone, Debug)]
pub enum Note {
    Progress(Progress),
    Log(LogLine),
    Question(Question),
}

/// The worker's side of a running job.
pub struct Desk {
    pub stop: watch::Receiver<Stop>,
    pub notes: broadcast::Sender<Note>,
    /// Whether the job goes on by itself.
    pub detached: watch::Sender<bool>,
    end: watch::Sender<Option<Arc<Outcome>>>,
}

/// The waiter's side.
pub struct Seat {
    pub end: watch::Receiver<Option<Arc<Outcome>>>,
    pub notes: broadcast::Receiver<Note>,
    pub detached: watch::Receiver<bool>,
}

/// The right to run: one place of the process, one of the caller.
pub type Place = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Live {
    pub fn new(options: &Options) -> Live {
        Live {
            jobs: Mutex::default(),
            places: Arc::new(Semaphore::new(options.max_running)),
            of_caller: Mutex::default(),
            per_caller: options.max_running_of_caller,
            closing: watch::channel(false).0,
        }
    }

    pub fn enter(&self, id: Id) -> (Desk, Seat) {
        let (stop, stopped) = watch::channel(Stop::No);
        let (end, ended) = watch::channel(None);
        let (notes, heard) = broadcast::channel(NOTES);
        let (detached, let_go) = watch::channel(false);
        let running = Running {
            stop,
            end: ended.clone(),
            notes: notes.clone(),
            detached: let_go.clone(),
            questions: HashMap::new(),
        };
        self.jobs().insert(id, running);
        if *self.closing.borrow() {
            self.tell(id, Stop::ShuttingDown);
        }
        (Desk { stop: stopped, notes, detached, end }, Seat { end: ended, notes: heard, detached: let_go })
    }

    /// Joins those who wait for a job of this process.
    pub fn sit_down(&self, id: Id) -> Option<Seat> {
        let jobs = self.jobs();
        let running = jobs.get(&id)?;
        Some(Seat {
            end: running.end.clone(),
            notes: running.notes.subscribe(),
            detached: running.detached.clone(),
        })
    }

    /// The end of a job, for whoever waits; `None` when it is left to another process.
    pub fn leave(&self, id: Id, desk: Desk, outcome: Option<Arc<Outcome>>) {
        self.jobs().remove(&id);
        desk.end.send_replace(outcome);
    }

    /// Stops a job, if it runs here, and waits until it has stopped.
    pub async fn stop(&self, id: Id) {
        if let Some(mut end) = self.tell(id, Stop::Cancelled) {
            // An error means that the worker is gone, which is what was wanted.
            let _ = end.changed().await;
        }
    }

    /// Stops everything, and lets nothing new begin.
    pub async fn close(&self) {
        self.closing.send_replace(true);
        let ends: Vec<_> =
            self.ids().into_iter().filter_map(|id| self.tell(id, Stop::ShuttingDown)).collect();
        for mut end in ends {
            let _ = end.changed().await;
        }
    }

    pub fn ids(&self) -> Vec<Id> {
        self.jobs().keys().copied().collect()
    }

    fn tell(&self, id: Id, why: Stop) -> Option<watch::Receiver<Option<Arc<Outcome>>>> {
        let jobs = self.jobs();
        let running = jobs.get(&id)?;
        running.stop.send_replace(why);
        Some(running.end.clone())
    }

    pub fn questions(&self, id: Id) -> Vec<Question> {
        let jobs = self.jobs();
        let mut questions: Vec<Question> =
            jobs.get(&id).map_or(Vec::new(), |job| job.questions.values().map(|(q, _)| q.clone()).collect());
        questions.sort_by(|a, b| a.key.cmp(&b.key));
        questions
    }

    /// Opens a question; the answer comes through the channel.
    pub fn ask(&self, id: Id, question: Question) -> Result<oneshot::Receiver<Result<Answer, Error>>, Error> {
        let (answer, answered) = oneshot::channel();
        let mut jobs = self.jobs();
        let gone = || Error::new(ErrorKind::Cancelled, "the job is over");
        let job = jobs.get_mut(&id).ok_or_else(gone)?;
        if job.questions.len() >= MAX_QUESTIONS || job.questions.contains_key(&question.key) {
            let message =
                format!("the question '{}' is open already, or {MAX_QUESTIONS} others are", question.key);
            return Err(
                Error::new(ErrorKind::ToolFailed, message).hint("give each question a key of its own")
            );
        }
        job.questions.insert(question.key.clone(), (question.clone(), answer));
        // No one may be listening; the question stays open for those who come later.
        let _ = job.notes.send(Note::Question(question));
        Ok(answered)
    }

    pub fn answer(&self, id: Id, key: &str, answer: Result<Answer, Error>) -> bool {
        let open = self.jobs().get_mut(&id).and_then(|job| job.questions.remove(key));
        open.is_some_and(|(_, waiting)| waiting.send(answer).is_ok())
    }

    /// Places to run in, if there are any now.
    pub fn try_place(&self, identity: &Identity) -> Option<Place> {
        let own = self.places_of(identity).try_acquire_owned().ok()?;
        Some((self.places.clone().try_acquire_owned().ok()?, own))
    }

    /// Waits in line: first behind the caller's own jobs, then behind everyone's.
    pub async fn place(&self, identity: &Identity) -> Result<Place, Error> {
        let closed = |_| Error::new(ErrorKind::Unavailable, "the server is shutting down");
        let own = self.places_of(identity).acquire_owned().await.map_err(closed)?;
        let place = self.places.clone().acquire_owned().await.map_err(closed)?;
        Ok((place, own))
    }

    fn places_of(&self, identity: &Identity) -> Arc<Semaphore> {
        let mut callers = lock(&self.of_caller);
        if callers.len() > 1024 {
            // Only those that no job holds or waits for.
            callers.retain(|_, places| Arc::strong_count(places) > 1);
        }
        callers.entry(identity.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.per_caller))).clone()
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<Id, Running>> {
        lock(&self.jobs)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
