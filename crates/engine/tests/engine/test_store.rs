//! The job store in memory, with a record of what is written and faults on request.

use crate::Trace;
use crate::scripted::pass;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use toolyard_engine::jobs::Jobs;
use toolyard_engine::stores::{
    Created, Durability, JobEnd, JobFilter, JobStore, Lease, NewJob, Recovered, StoreError, StoreFuture,
    UpdateResult,
};
use toolyard_protocol::{Id, Identity, Job, JobState, Progress, Timestamp};
use toolyard_store::suite::memory::{self, Memory};

pub struct TestStore {
    inner: memory::Jobs,
    trace: Trace,
    /// The number of synced changes.
    pub synced: AtomicU64,
    /// So many starts and ends of jobs find the disk full.
    pub full_for: AtomicU64,
    /// No row can be read.
    pub is_broken: AtomicBool,
    /// So long takes the end of a job.
    pub finish_takes: Mutex<Duration>,
    /// When each end of a job was tried.
    pub finish_tried: Mutex<Vec<Instant>>,
    pub progress_written: Mutex<Vec<f64>>,
    /// This service is shut down when the next job has been created.
    pub stop_after_create: Mutex<Option<Arc<Jobs>>>,
}

impl TestStore {
    pub fn new(memory: &Memory, trace: Trace) -> Arc<TestStore> {
        Arc::new(TestStore {
            inner: memory::Jobs(memory.clone()),
            trace,
            synced: AtomicU64::new(0),
            full_for: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            finish_takes: Mutex::default(),
            finish_tried: Mutex::default(),
            progress_written: Mutex::default(),
            stop_after_create: Mutex::default(),
        })
    }

    fn count_synced(&self, durability: Durability) {
        self.synced.fetch_add(u64::from(durability == Durability::Synced), Ordering::SeqCst);
    }

    fn unless_full<'a, T: Send + 'a>(
        &self,
        change: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        match self.full_for.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)) {
            Ok(_) => Box::pin(std::future::ready(Err(StoreError::Full))),
            Err(_) => change(),
        }
    }
}

impl JobStore for TestStore {
    fn create(&self, new: NewJob) -> StoreFuture<'_, Created> {
        self.count_synced(Durability::Synced);
        self.trace.add("job create");
        let created = self.inner.create(new);
        match self.stop_after_create.lock().unwrap().take() {
            Some(jobs) => Box::pin(async move {
                tokio::spawn(async move { jobs.shut_down().await });
                tokio::task::yield_now().await;
                created.await
            }),
            None => created,
        }
    }

    fn start(&self, lease: Lease, now: Timestamp, durability: Durability) -> StoreFuture<'_, UpdateResult> {
        self.count_synced(durability);
        self.trace.add("job start");
        self.unless_full(|| self.inner.start(lease, now, durability))
    }

    fn progress(&self, lease: Lease, progress: Progress, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.progress_written.lock().unwrap().push(progress.done);
        self.inner.progress(lease, progress, now)
    }

    fn set_waiting(&self, lease: Lease, waiting: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.inner.set_waiting(lease, waiting, now)
    }

    fn finish(&self, lease: Lease, ending: JobEnd, durability: Durability) -> StoreFuture<'_, UpdateResult> {
        self.count_synced(durability);
        self.trace.add("job finish");
        self.finish_tried.lock().unwrap().push(Instant::now());
        Box::pin(async move {
            pass(&self.finish_takes).await;
            self.unless_full(|| self.inner.finish(lease, ending, durability)).await
        })
    }

    fn give_back(&self, lease: Lease, has_run: bool, now: Timestamp) -> StoreFuture<'_, UpdateResult> {
        self.unless_full(|| self.inner.give_back(lease, has_run, now))
    }

    fn cancel_requests(&self, owner: Id) -> StoreFuture<'_, Vec<Id>> {
        self.inner.cancel_requests(owner)
    }

    fn cancel(&self, id: Id, now: Timestamp) -> StoreFuture<'_, JobState> {
        self.unless_full(|| self.inner.cancel(id, now))
    }

    fn take_over(&self, from: Id, to: Id, now: Timestamp, limit: usize) -> StoreFuture<'_, Vec<Recovered>> {
        self.inner.take_over(from, to, now, limit)
    }

    fn owners(&self) -> StoreFuture<'_, Vec<Id>> {
        self.inner.owners()
    }

    fn get(&self, id: Id) -> StoreFuture<'_, Option<Job>> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(StoreError::Broken("it is damaged".into()))));
        }
        self.inner.get(id)
    }

    fn list(&self, filter: JobFilter) -> StoreFuture<'_, Vec<Job>> {
        self.inner.list(filter)
    }

    fn count(&self, identity: Option<Identity>) -> StoreFuture<'_, Vec<(JobState, u64)>> {
        self.inner.count(identity)
    }

    fn expire(&self, now: Timestamp, limit: usize) -> StoreFuture<'_, u64> {
        self.inner.expire(now, limit)
    }
}
