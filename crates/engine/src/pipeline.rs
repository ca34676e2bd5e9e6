//! THE list: what happens to every call from every edge, in order. Nothing bypasses it.

use crate::audit::AuditLog;
use crate::cache::Cache;
use crate::clock::{Clock, Random, new_id};
use crate::gates::run::ToolPermit;
use crate::gates::{self, CallLimit};
use crate::jobs::{JobGates, LazyJobs};
use crate::registry::{Entry, Registry};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use toolyard_protocol::{Call, Caller, Error, Id, Outcome, Redactor, Timing};

/// Everything a call needs on its way.
pub struct Engine {
    pub registry: Arc<Registry>,
    pub audit: Arc<dyn AuditLog>,
    pub cache: Arc<Cache>,
    pub redactor: Arc<dyn Redactor>,
    pub jobs: LazyJobs,
    pub call_limit: CallLimit,
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
            Ok(entry) => match self.call_limit.try_acquire() {
                Ok(_permit) => self.run_admitted(&call, caller, &entry, started).await,
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
    pub fn redact_error(&self, error: Error) -> Error {
        gates::redact::error(self.redactor.as_ref(), error)
    }

    async fn refuse(&self, call: &Call, error: Error) -> Outcome {
        gates::record::refused(self.audit.as_ref(), &self.redacted_call(call), self.redact_error(error)).await
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
        let open_record = match gates::record::begin(&self.audit, &self.redacted_call(call), entry).await {
            Ok(open_record) => open_record,
            Err(error) => return Outcome::failure(error),
        };
        let ran = gates::cache::reuse_or_run(
            (&self.cache, &self.redactor),
            call,
            caller,
            entry,
            started,
            ToolPermit::ToAcquire,
        )
        .await;
        let mut outcome = Outcome::from(ran);
        outcome.meta.duration = started.elapsed();
        gates::record::end(open_record, outcome).await
    }

    /// The same gates, in a task that outlives the call.
    async fn run_as_job(&self, call: &Call, caller: &dyn Caller, entry: Arc<Entry>) -> Outcome {
        let open_record = match gates::record::begin(&self.audit, &self.redacted_call(call), &entry).await {
            Ok(open_record) => open_record,
            Err(error) => return Outcome::failure(error),
        };
        match self.jobs.jobs() {
            Ok(jobs) => jobs.run(self.job_gates(), call.clone(), caller, entry, open_record).await,
            Err(error) => gates::record::end(open_record, Outcome::failure(error)).await,
        }
    }

    /// The gates that a job passes by itself.
    pub fn job_gates(&self) -> JobGates {
        JobGates { audit: self.audit.clone(), cache: self.cache.clone(), redactor: self.redactor.clone() }
    }

    /// The call as the audit log may see it.
    fn redacted_call<'c>(&self, call: &'c Call) -> Cow<'c, Call> {
        gates::redact::call(self.redactor.as_ref(), call)
    }
}

/// Whether the call must be remembered: its tool takes its time, or its caller may send it again.
fn is_job(call: &Call, entry: &Entry) -> bool {
    entry.spec.timing != Timing::Sync || call.idempotency_key.is_some()
}
