//! THE list: what happens to every call from every edge, in order. Nothing bypasses it.

use crate::audit::AuditLog;
use crate::cache::Cache;
use crate::clock::{Clock, Random, new_id};
use crate::gates::run::Seat;
use crate::gates::{self, Crowd};
use crate::jobs::{JobsDoor, Passage};
use crate::registry::{Entry, Registry};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use toolyard_protocol::{Call, Caller, Error, Id, Outcome, Redactor, Timing};

/// Everything a call needs on its way.
pub struct Engine {
    pub registry: Arc<Registry>,
    pub audit: Arc<AuditLog>,
    pub cache: Arc<Cache>,
    pub redactor: Arc<dyn Redactor>,
    pub jobs: JobsDoor,
    pub crowd: Crowd,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

impl Engine {
    /// A fresh id for a call.
    pub fn call_id(&self) -> Id {
        new_id(self.clock.as_ref(), self.random.as_ref())
    }

    /// Runs one call. Dropping the future cancels it: the tool is killed and the audit log says so.
    pub async fn run(&self, call: Call, caller: &dyn Caller) -> Outcome {
        let started = Instant::now();
        let mut outcome = match self.admit(&call, started) {
            Ok(entry) if is_job(&call, &entry) => self.run_as_job(&call, caller, entry).await,
            Ok(entry) => match self.crowd.enter() {
                Ok(_place) => self.run_admitted(&call, caller, &entry, started).await,
                Err(error) => self.refuse(&call, error).await,
            },
            Err(error) => self.refuse(&call, error).await,
        };
        outcome.meta.call_id = Some(call.id);
        outcome.meta.duration = started.elapsed();
        if let Some(error) = outcome.error_mut() {
            error.correlation_id = Some(call.id);
        }
        outcome
    }

    /// Hides secrets in an error of something that never became a call.
    pub fn hide(&self, error: Error) -> Error {
        gates::redact::error(self.redactor.as_ref(), error)
    }

    async fn refuse(&self, call: &Call, error: Error) -> Outcome {
        gates::record::refused(&self.audit, &self.shown(call), self.hide(error)).await
    }

    /// The gates before anything is started.
    fn admit(&self, call: &Call, started: Instant) -> Result<Arc<Entry>, Error> {
        let entry = gates::find::find(&self.registry, &call.tool)?;
        gates::rate::take(&entry, started)?;
        gates::size::input(&entry.spec, &call.arguments)?;
        gates::validate::input(&entry, &call.arguments)?;
        Ok(entry)
    }

    async fn run_admitted(
        &self,
        call: &Call,
        caller: &dyn Caller,
        entry: &Arc<Entry>,
        started: Instant,
    ) -> Outcome {
        let begun = match gates::record::begin(&self.audit, &self.shown(call), entry).await {
            Ok(begun) => begun,
            Err(error) => return Outcome::failure(error),
        };
        let ran = gates::cache::reuse_or_run(
            (&self.cache, &self.redactor),
            call,
            caller,
            entry,
            started,
            Seat::ToFind,
        )
        .await;
        let mut outcome = Outcome::from(ran);
        outcome.meta.duration = started.elapsed();
        gates::record::end(&self.audit, begun, outcome).await
    }

    /// The same gates, in a task that outlives the call.
    async fn run_as_job(&self, call: &Call, caller: &dyn Caller, entry: Arc<Entry>) -> Outcome {
        let begun = match gates::record::begin(&self.audit, &self.shown(call), &entry).await {
            Ok(begun) => begun,
            Err(error) => return Outcome::failure(error),
        };
        match self.jobs.jobs() {
            Ok(jobs) => jobs.run(self.passage(), call.clone(), caller, entry, begun).await,
            Err(error) => gates::record::end(&self.audit, begun, Outcome::failure(error)).await,
        }
    }

    /// The gates that a job passes by itself.
    pub fn passage(&self) -> Passage {
        Passage { audit: self.audit.clone(), cache: self.cache.clone(), redactor: self.redactor.clone() }
    }

    /// The call as the audit log may see it.
    fn shown<'c>(&self, call: &'c Call) -> Cow<'c, Call> {
        gates::redact::call(self.redactor.as_ref(), call)
    }
}

/// Whether the call must be remembered: its tool takes its time, or its caller may send it again.
fn is_job(call: &Call, entry: &Entry) -> bool {
    entry.spec.timing != Timing::Sync || call.idempotency_key.is_some()
}
