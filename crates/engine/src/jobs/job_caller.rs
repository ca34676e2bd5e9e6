//! The caller of a running job: progress and log lines go to the store and to listeners, questions stay open.

use super::Jobs;
use super::running::{JobUpdate, JobWorker};
use crate::stores::{Lease, NewEvent};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, watch};
use toolyard_protocol::json::Object;
use toolyard_protocol::{Caller, Error, ErrorKind, InputFuture, InputRequest, LogLine, Payload, Progress};

/// The minimum interval between progress writes to the store; listeners receive every update.
const WRITE_EVERY: Duration = Duration::from_millis(250);

/// The caller that the tool of a job sees.
pub struct JobCaller {
    pub jobs: Arc<Jobs>,
    pub lease: Lease,
    pub updates: broadcast::Sender<JobUpdate>,
    detached: watch::Sender<bool>,
    written: Mutex<Option<Instant>>,
}

impl JobCaller {
    pub fn new(jobs: Arc<Jobs>, lease: Lease, worker: &JobWorker) -> JobCaller {
        let (updates, detached) = (worker.updates.clone(), worker.detached.clone());
        JobCaller { jobs, lease, updates, detached, written: Mutex::default() }
    }

    fn is_due(&self) -> bool {
        let mut written = self.written.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let due = written.is_none_or(|at| at.elapsed() >= WRITE_EVERY);
        if due {
            *written = Some(Instant::now());
        }
        due
    }

    async fn ask_and_wait(&self, question: InputRequest) -> Result<toolyard_protocol::InputResponse, Error> {
        let answered = self.jobs.running.ask(self.lease.id, question)?;
        self.jobs.store.set_waiting(self.lease, true, self.jobs.now()).await?;
        let answer = answered.await;
        if self.jobs.running.questions(self.lease.id).is_empty() {
            self.jobs.store.set_waiting(self.lease, false, self.jobs.now()).await?;
        }
        answer.unwrap_or_else(|_| Err(Error::new(ErrorKind::Cancelled, "the job has ended")))
    }
}

impl Caller for JobCaller {
    fn progress(&self, progress: Progress) {
        // Fails when there are no listeners, which is fine.
        let _ = self.updates.send(JobUpdate::Progress(progress.clone()));
        if self.is_due() {
            let (store, lease, now) = (self.jobs.store.clone(), self.lease, self.jobs.now());
            // A failed write is superseded by the next progress.
            tokio::spawn(async move { store.progress(lease, progress, now).await.map(|_| ()) });
        }
    }

    fn log(&self, line: LogLine) {
        let event = NewEvent {
            at: self.jobs.now(),
            kind: "log".to_owned(),
            subject: Some(self.lease.id.to_string()),
            data: log_data(self.lease, &line),
        };
        let _ = self.updates.send(JobUpdate::Log(line));
        let events = self.jobs.events.clone();
        tokio::spawn(async move { events.append(event).await.map(|_| ()) });
    }

    fn request_input(&self, question: InputRequest) -> InputFuture<'_> {
        Box::pin(self.ask_and_wait(question))
    }

    fn detach(&self) {
        self.detached.send_replace(true);
    }
}

fn log_data(lease: Lease, line: &LogLine) -> Payload {
    let mut out = Vec::with_capacity(line.data.len() + 96);
    Object::new(&mut out)
        .text("job_id", lease.id.text().as_str())
        .text("level", line.level.as_str())
        .text("source", line.logger.as_deref().unwrap_or("tool"))
        .raw("message", line.data.bytes());
    Payload::json(out)
}
