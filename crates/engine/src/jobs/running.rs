//! The jobs that run in this process, by id.

use super::handle::{End, JobHandle, StopSignal, lock};
use super::permits::JobPermits;
use super::{Jobs, Options};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use toolyard_protocol::{Id, Outcome};

pub struct RunningJobs {
    jobs: Mutex<HashMap<Id, Arc<JobHandle>>>,
    pub permits: JobPermits,
    /// Changed while `jobs` is locked.
    is_closing: watch::Sender<bool>,
}

impl RunningJobs {
    pub fn new(options: &Options) -> RunningJobs {
        RunningJobs {
            jobs: Mutex::default(),
            permits: JobPermits::new(options),
            is_closing: watch::Sender::new(false),
        }
    }

    pub fn get(&self, id: Id) -> Option<Arc<JobHandle>> {
        lock(&self.jobs).get(&id).cloned()
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.jobs).is_empty()
    }

    /// Stops all jobs and lets no new one start; waits for their ends, but no longer than `limit`.
    pub async fn close(&self, limit: Duration) {
        let handles: Vec<_> = {
            let jobs = lock(&self.jobs);
            self.is_closing.send_replace(true);
            jobs.values().cloned().collect()
        };
        for handle in &handles {
            handle.stop(StopSignal::ShuttingDown);
        }
        let ended = async {
            for handle in handles {
                let _ = handle.status().wait_for(|status| matches!(status.end, End::Ended(_))).await;
            }
        };
        let _ = timeout(limit, ended).await;
    }

    pub fn is_closing(&self) -> bool {
        *self.is_closing.borrow()
    }

    /// Waits until the process shuts down.
    pub async fn closing(&self) {
        let _ = self.is_closing.subscribe().wait_for(|is_closing| *is_closing).await;
    }
}

/// The task's side of a job. However the task ends, the job leaves the table and its listeners are told.
pub struct JobWorker {
    pub jobs: Arc<Jobs>,
    pub handle: Arc<JobHandle>,
}

impl JobWorker {
    pub fn register(jobs: Arc<Jobs>, id: Id) -> JobWorker {
        let handle = {
            let mut table = lock(&jobs.running.jobs);
            let stop = if jobs.running.is_closing() { StopSignal::ShuttingDown } else { StopSignal::None };
            let handle = JobHandle::new(id, stop);
            table.insert(id, handle.clone());
            handle
        };
        JobWorker { jobs, handle }
    }

    /// Removes the job and publishes its outcome; `None` when it is left to another process.
    pub fn end(self, outcome: Option<Outcome>) {
        self.remove();
        self.handle.set_end(End::Ended(outcome.map(Arc::new)));
    }

    fn remove(&self) {
        lock(&self.jobs.running.jobs).remove(&self.handle.id);
    }
}

impl Drop for JobWorker {
    fn drop(&mut self) {
        if !self.handle.is_ended() {
            self.remove();
            self.handle.set_end(End::Ended(None));
        }
    }
}
