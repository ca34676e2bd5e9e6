//! The jobs that run in this process: stop signals, open questions, listeners and permits.

use super::options::Options;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot, watch};
use toolyard_protocol::{
    Error, ErrorKind, Id, Identity, InputRequest, InputResponse, LogLine, Outcome, Progress,
};

/// Updates buffered per listener. Missing some does no harm: the outcome has a channel of its own.
const UPDATE_BUFFER: usize = 64;
/// Questions that one job may have open.
const MAX_QUESTIONS: usize = 64;

pub struct RunningJobs {
    jobs: Mutex<HashMap<Id, RunningJob>>,
    permits: Arc<Semaphore>,
    caller_permits: Mutex<HashMap<Identity, Arc<Semaphore>>>,
    per_caller: usize,
    closing: watch::Sender<bool>,
}

struct RunningJob {
    stop: watch::Sender<StopSignal>,
    end: watch::Receiver<Option<Arc<Outcome>>>,
    updates: broadcast::Sender<JobUpdate>,
    detached: watch::Receiver<bool>,
    questions: HashMap<String, (InputRequest, oneshot::Sender<Result<InputResponse, Error>>)>,
}

/// Why a job must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    None,
    /// Cancellation was requested.
    Cancelled,
    /// The process is shutting down.
    ShuttingDown,
}

/// A message of a running job to its listeners.
#[derive(Clone, Debug)]
pub enum JobUpdate {
    Progress(Progress),
    Log(LogLine),
    InputRequest(InputRequest),
}

/// The worker's side of a running job.
pub struct JobWorker {
    pub stop: watch::Receiver<StopSignal>,
    pub updates: broadcast::Sender<JobUpdate>,
    /// Set when the tool detaches from its caller.
    pub detached: watch::Sender<bool>,
    end: watch::Sender<Option<Arc<Outcome>>>,
}

/// The listener's side of a running job.
pub struct JobListener {
    pub end: watch::Receiver<Option<Arc<Outcome>>>,
    pub updates: broadcast::Receiver<JobUpdate>,
    pub detached: watch::Receiver<bool>,
}

/// The right to run: one permit of the process, one of the caller.
pub type JobPermits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl RunningJobs {
    pub fn new(options: &Options) -> RunningJobs {
        RunningJobs {
            jobs: Mutex::default(),
            permits: Arc::new(Semaphore::new(options.max_running)),
            caller_permits: Mutex::default(),
            per_caller: options.max_running_of_caller,
            closing: watch::channel(false).0,
        }
    }

    pub fn register(&self, id: Id) -> (JobWorker, JobListener) {
        let (stop, stopped) = watch::channel(StopSignal::None);
        let (end, ended) = watch::channel(None);
        let (updates, updates_rx) = broadcast::channel(UPDATE_BUFFER);
        let (detached, detached_rx) = watch::channel(false);
        let running = RunningJob {
            stop,
            end: ended.clone(),
            updates: updates.clone(),
            detached: detached_rx.clone(),
            questions: HashMap::new(),
        };
        self.jobs().insert(id, running);
        if *self.closing.borrow() {
            self.signal_stop(id, StopSignal::ShuttingDown);
        }
        (
            JobWorker { stop: stopped, updates, detached, end },
            JobListener { end: ended, updates: updates_rx, detached: detached_rx },
        )
    }

    /// Listens to a job of this process.
    pub fn subscribe(&self, id: Id) -> Option<JobListener> {
        let jobs = self.jobs();
        let running = jobs.get(&id)?;
        Some(JobListener {
            end: running.end.clone(),
            updates: running.updates.subscribe(),
            detached: running.detached.clone(),
        })
    }

    /// Removes the job and publishes its outcome; `None` when it is left to another process.
    pub fn finish(&self, id: Id, worker: JobWorker, outcome: Option<Arc<Outcome>>) {
        self.jobs().remove(&id);
        worker.end.send_replace(outcome);
    }

    /// Stops a job, if it runs here, and waits until it has stopped.
    pub async fn stop(&self, id: Id) {
        if let Some(mut end) = self.signal_stop(id, StopSignal::Cancelled) {
            // An error means that the worker has ended.
            let _ = end.changed().await;
        }
    }

    /// Stops all jobs and lets no new one start.
    pub async fn close(&self) {
        self.closing.send_replace(true);
        let ends: Vec<_> =
            self.ids().into_iter().filter_map(|id| self.signal_stop(id, StopSignal::ShuttingDown)).collect();
        for mut end in ends {
            let _ = end.changed().await;
        }
    }

    pub fn ids(&self) -> Vec<Id> {
        self.jobs().keys().copied().collect()
    }

    fn signal_stop(&self, id: Id, why: StopSignal) -> Option<watch::Receiver<Option<Arc<Outcome>>>> {
        let jobs = self.jobs();
        let running = jobs.get(&id)?;
        running.stop.send_replace(why);
        Some(running.end.clone())
    }

    pub fn questions(&self, id: Id) -> Vec<InputRequest> {
        let jobs = self.jobs();
        let mut questions: Vec<InputRequest> =
            jobs.get(&id).map_or(Vec::new(), |job| job.questions.values().map(|(q, _)| q.clone()).collect());
        questions.sort_by(|a, b| a.key.cmp(&b.key));
        questions
    }

    /// Opens a question; the answer comes through the channel.
    pub fn ask(
        &self,
        id: Id,
        question: InputRequest,
    ) -> Result<oneshot::Receiver<Result<InputResponse, Error>>, Error> {
        let (answer, answered) = oneshot::channel();
        let mut jobs = self.jobs();
        let gone = || Error::new(ErrorKind::Cancelled, "the job has ended");
        let job = jobs.get_mut(&id).ok_or_else(gone)?;
        if job.questions.len() >= MAX_QUESTIONS || job.questions.contains_key(&question.key) {
            let message =
                format!("the question '{}' is already open, or {MAX_QUESTIONS} others are", question.key);
            return Err(
                Error::new(ErrorKind::ToolFailed, message).hint("give each question a key of its own")
            );
        }
        job.questions.insert(question.key.clone(), (question.clone(), answer));
        // Fails when there are no listeners; the question stays open for later ones.
        let _ = job.updates.send(JobUpdate::InputRequest(question));
        Ok(answered)
    }

    pub fn answer(&self, id: Id, key: &str, answer: Result<InputResponse, Error>) -> bool {
        let open = self.jobs().get_mut(&id).and_then(|job| job.questions.remove(key));
        open.is_some_and(|(_, waiting)| waiting.send(answer).is_ok())
    }

    /// Permits to run, if they are free now.
    pub fn try_acquire(&self, identity: &Identity) -> Option<JobPermits> {
        let own = self.permits_of(identity).try_acquire_owned().ok()?;
        Some((self.permits.clone().try_acquire_owned().ok()?, own))
    }

    /// Waits for permits: first the caller's own, then the process's.
    pub async fn acquire(&self, identity: &Identity) -> Result<JobPermits, Error> {
        let closed = |_| Error::new(ErrorKind::Unavailable, "the server is shutting down");
        let own = self.permits_of(identity).acquire_owned().await.map_err(closed)?;
        let permit = self.permits.clone().acquire_owned().await.map_err(closed)?;
        Ok((permit, own))
    }

    fn permits_of(&self, identity: &Identity) -> Arc<Semaphore> {
        let mut callers = lock(&self.caller_permits);
        if callers.len() > 1024 {
            // Keeps the semaphores that a job holds or waits for.
            callers.retain(|_, permits| Arc::strong_count(permits) > 1);
        }
        callers.entry(identity.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.per_caller))).clone()
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<Id, RunningJob>> {
        lock(&self.jobs)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permits_of_callers_are_forgotten_when_there_are_many_and_none_is_used() {
        let options = Options { max_running: 10_000, max_running_of_caller: 1, ..Options::default() };
        let running = RunningJobs::new(&options);
        let caller = |n: u32| Identity::new(format!("caller {n}"));
        let mut held: Vec<_> = (0..1100).map(|n| running.try_acquire(&caller(n)).unwrap()).collect();
        assert!(running.try_acquire(&caller(5)).is_none(), "each caller has one permit");
        held.truncate(1);
        assert!(running.try_acquire(&caller(5)).is_some());
        assert!(running.try_acquire(&caller(0)).is_none(), "a permit in use is not forgotten");
        assert_eq!(lock(&running.caller_permits).len(), 2);
    }
}
