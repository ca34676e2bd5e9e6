//! THE list: every gate that a call passes, in order. Direct calls, jobs, recovered jobs, the calls of a
//! batch and resource writes all pass through it; nothing bypasses it.

use crate::cache::Cache;
use crate::clock::{Clock, Random, new_id};
use crate::gates::audit::{self, AuditLog};
use crate::gates::concurrency::{self, CallLimit, ToolPermit};
use crate::gates::{Ran, RedactingCaller, authorise, cache, rate_limit, redact, run, validate};
use crate::jobs::{JobRun, LazyJobs, Started};
use crate::lazy::Lazy;
use crate::registry::{Entry, Registry};
use crate::stores::LimitStore;
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;
use toolyard_protocol::{Call, Caller, Error, Id, NoopCaller, Outcome, Redactor, Timing};

/// Everything that running a call needs. Clones share it.
#[derive(Clone)]
pub struct Engine {
    pub registry: Arc<Registry>,
    pub rate_limits: Lazy<Arc<dyn LimitStore>>,
    pub call_limit: CallLimit,
    pub audit: Arc<dyn AuditLog>,
    pub cache: Arc<Cache>,
    pub redactor: Arc<dyn Redactor>,
    pub jobs: LazyJobs,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

/// What a call runs in.
pub(crate) enum Execution<'a> {
    /// The caller's own future; dropping it cancels the call.
    Direct(&'a dyn Caller),
    /// The same, for an operation that is not a registered tool.
    Operation(Arc<Entry>, &'a dyn Caller),
    /// The task of a job, which outlives the caller.
    Job(&'a mut JobRun),
}

impl Engine {
    /// A fresh id for a call.
    pub fn call_id(&self) -> Id {
        new_id(self.clock.as_ref(), self.random.as_ref())
    }

    /// Runs one call. Dropping the future cancels it: the tool is killed and the call recorded as cancelled.
    pub async fn run(&self, call: Call, caller: &dyn Caller) -> Outcome {
        let (started, id) = (Instant::now(), call.id);
        let entry = self.registry.find(&call.tool).filter(|entry| is_job(&call, entry));
        let mut outcome = match entry.map(|entry| (entry, self.jobs.get())) {
            Some((entry, Ok(jobs))) => jobs.submit(self, call, &entry.spec, caller).await,
            Some((_, Err(error))) => {
                let refusal = Outcome::failure(self.redact_error(error));
                audit::refused(self.audit.as_ref(), &self.redacted(&call), refusal).await
            }
            None => self.execute(&call, Execution::Direct(caller)).await,
        };
        outcome.meta.duration = started.elapsed();
        stamp(&mut outcome, id);
        outcome
    }

    /// The gates, each named once. The first that refuses ends the call; every end is recorded.
    pub(crate) async fn execute(&self, call: &Call, mut execution: Execution<'_>) -> Outcome {
        let mut started = Instant::now();
        let (mut _call_permit, mut record) = (None, None);
        let ran = async {
            let entry = execution.entry().map_or_else(|| self.registry.require(&call.tool), Ok)?;
            authorise::check(&call.identity, &entry.spec)?;
            rate_limit::take(self, &entry, &execution).await?;
            validate::size(&entry.spec, &call.arguments)?;
            validate::input(&entry, &call.arguments)?;
            _call_permit = concurrency::acquire(&self.call_limit, &execution)?;
            record = Some(audit::begin(&self.audit, call, &self.redacted(call), &entry, &execution).await?);
            let (mut permit, mut job_caller) = (ToolPermit::ToAcquire, None);
            if let Execution::Job(job) = &mut execution {
                match job.start(call, &entry, self.redactor.as_ref()).await? {
                    Started::Running(acquired, caller) => (permit, job_caller) = (acquired, Some(caller)),
                    Started::Joined(outcome) => {
                        return Ok(Ran { entry, outcome: *outcome, to_store: None, is_validated: true });
                    }
                }
                started = Instant::now();
            }
            let lookup = cache::look_up(&self.cache, call, &entry)?;
            let caller = job_caller.as_ref().map_or(execution.caller(), |caller| caller as &dyn Caller);
            let caller = RedactingCaller { caller, redactor: self.redactor.as_ref() };
            let announces_start = entry.runner.announces_start();
            let run = run::run(&self.cache, lookup, call, &caller, entry, (started, permit));
            match &mut execution {
                Execution::Job(job) => job.run_tool(announces_start, run).await,
                Execution::Direct(_) | Execution::Operation(..) => run.await,
            }
        };
        let ran = run::catch_panic(pin!(ran)).await;
        let ran = redact::result(self.redactor.as_ref(), ran);
        let ran = ran.and_then(validate::output);
        let mut outcome = Outcome::from(ran.map(|ran| cache::store(&self.cache, ran)));
        outcome.meta.duration = started.elapsed();
        stamp(&mut outcome, call.id);
        match record {
            Some(record) => audit::end(record, outcome, &execution).await,
            None => audit::refused(self.audit.as_ref(), &self.redacted(call), outcome).await,
        }
    }

    /// Redacts an error that occurred before there was a call.
    pub fn redact_error(&self, error: Error) -> Error {
        redact::error(self.redactor.as_ref(), error)
    }

    /// The call as it may be recorded.
    fn redacted<'c>(&self, call: &'c Call) -> Cow<'c, Call> {
        redact::call(self.redactor.as_ref(), call)
    }
}

impl<'a> Execution<'a> {
    fn entry(&self) -> Option<Arc<Entry>> {
        match self {
            Execution::Operation(entry, _) => Some(entry.clone()),
            Execution::Direct(_) | Execution::Job(_) => None,
        }
    }

    /// A job gets its own caller when it starts.
    fn caller(&self) -> &'a dyn Caller {
        match self {
            Execution::Direct(caller) | Execution::Operation(_, caller) => *caller,
            Execution::Job(_) => &NoopCaller,
        }
    }

    /// Whether the call was already admitted by a process that has died.
    pub fn is_recovered(&self) -> bool {
        matches!(self, Execution::Job(job) if job.is_recovered())
    }
}

/// Whether the call is a job: its tool declares a timing, or its caller may send it again.
fn is_job(call: &Call, entry: &Entry) -> bool {
    !matches!(entry.spec.timing, Timing::Sync) || call.idempotency_key.is_some()
}

fn stamp(outcome: &mut Outcome, call: Id) {
    outcome.meta.call_id = Some(call);
    if let Some(error) = outcome.error_mut() {
        error.correlation_id = Some(call);
    }
}
