//! One job at work: it waits for its place, runs through the gates, and is kept at its end.

use super::live::{Desk, Place, Stop};
use super::teller::Teller;
use super::{Jobs, Passage};
use crate::audit::Begun;
use crate::gates;
use crate::gates::run::Seat;
use crate::registry::Entry;
use crate::stores::{Change, Durability, Lease, StoreError};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use toolyard_protocol::{Call, Error, ErrorKind, Outcome};

/// How often a job that finds no room for its records tries again.
const PAUSE: Duration = Duration::from_millis(200);

/// Everything a job's task owns.
pub struct Work {
    pub lease: Lease,
    pub call: Call,
    pub entry: Arc<Entry>,
    /// Of the call that made the job; a job that is taken over begins anew.
    pub begun: Option<Begun>,
    /// Taken already when the job starts at once.
    pub place: Option<(Place, Option<OwnedSemaphorePermit>)>,
    /// In the store it counts as started already.
    pub marked_running: bool,
    pub passage: Passage,
}

/// How the work came to an end.
enum End {
    Outcome(Box<Outcome>),
    /// Another process has the job, or will have it.
    LeftToOthers,
}

impl Work {
    /// `awaited`: the caller is still there for the result.
    pub async fn run(self, jobs: Arc<Jobs>, desk: Desk, awaited: bool) {
        let (lease, timing) = (self.lease, self.entry.spec.timing);
        let end = self.carry_out(&jobs, &desk).await;
        let outcome = match end {
            End::LeftToOthers => None,
            End::Outcome(outcome) => jobs.keep_end(lease, timing, *outcome, awaited).await,
        };
        jobs.live.leave(lease.id, desk, outcome.map(Arc::new));
    }

    async fn carry_out(mut self, jobs: &Arc<Jobs>, desk: &Desk) -> End {
        let started = self.place.take();
        let mut stop = desk.stop.clone();
        let held = match started {
            Some(place) => place,
            None => {
                let placed = tokio::select! {
                    why = stop.wait_for(|stop| *stop != Stop::No) => Err(why.map_or(Stop::ShuttingDown, |why| *why)),
                    place = self.wait_for_place(jobs) => Ok(place),
                };
                match placed {
                    Ok(Ok(place)) => place,
                    Ok(Err(end)) => return end,
                    Err(Stop::Cancelled) => return self.stopped(Stop::Cancelled, false),
                    // Not begun: the next process may have it.
                    Err(_) => return End::LeftToOthers,
                }
            }
        };
        let teller = Teller::new(jobs.clone(), self.lease, desk);
        let why = tokio::select! {
            outcome = self.pass(held, &teller) => return End::Outcome(Box::new(outcome)),
            why = stop.wait_for(|stop| *stop != Stop::No) => why.map_or(Stop::ShuttingDown, |why| *why),
        };
        let repeatable = self.entry.spec.annotations.is_safe_to_repeat();
        self.stopped(why, repeatable)
    }

    /// A line of its own for the tool, behind the caller's and the process's.
    async fn wait_for_place(
        &mut self,
        jobs: &Arc<Jobs>,
    ) -> Result<(Place, Option<OwnedSemaphorePermit>), End> {
        let failed = |error: Error| End::Outcome(Box::new(Outcome::failure(error)));
        let place = jobs.live.place(&self.call.identity).await.map_err(failed)?;
        let own = self.entry.controls.place_unhurried().await.map_err(failed)?;
        if self.marked_running {
            return Ok((place, own));
        }
        // What must not run twice must not look unstarted after a power cut.
        let repeatable = self.entry.spec.annotations.is_safe_to_repeat();
        let durability = if repeatable { Durability::Written } else { Durability::Synced };
        loop {
            match jobs.store.start(self.lease, jobs.now(), durability).await {
                Ok(Change::Made) => return Ok((place, own)),
                Ok(Change::LeaseLost) | Err(StoreError::Stopped) => return Err(End::LeftToOthers),
                // A full disk, most likely: what was promised waits for room.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// The gates behind the admission, with the audit record's end.
    async fn pass(
        &mut self,
        (_place, own): (Place, Option<OwnedSemaphorePermit>),
        teller: &Teller,
    ) -> Outcome {
        let started = Instant::now();
        let Passage { audit, cache, redactor } = &self.passage;
        let begun = match self.begun.take() {
            Some(begun) => begun,
            None => self.begin_again().await,
        };
        let seat = Seat::Taken(own);
        let ran =
            gates::cache::reuse_or_run((cache, redactor), &self.call, teller, &self.entry, started, seat)
                .await;
        let mut outcome = Outcome::from(ran);
        outcome.meta.call_id = Some(self.call.id);
        outcome.meta.duration = started.elapsed();
        if let Some(error) = outcome.error_mut() {
            error.correlation_id = Some(self.call.id);
        }
        gates::record::end_of_job(audit, begun, outcome).await
    }

    /// A job that was promised waits for room in the audit log; it does not fail for want of it.
    async fn begin_again(&self) -> Begun {
        let Passage { audit, redactor, .. } = &self.passage;
        loop {
            let shown = gates::redact::call(redactor.as_ref(), &self.call);
            match gates::record::begin(audit, &shown, &self.entry).await {
                Ok(begun) => return begun,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Dropping the run has killed the tool and written the cancellation to the audit log.
    fn stopped(self, why: Stop, repeatable: bool) -> End {
        match why {
            Stop::ShuttingDown if repeatable => End::LeftToOthers,
            Stop::ShuttingDown => {
                let message =
                    "the server was stopped while the job ran; the tool's whole process tree was killed";
                End::Outcome(Box::new(Outcome::failure(Error::new(ErrorKind::Cancelled, message))))
            }
            Stop::No | Stop::Cancelled => End::Outcome(Box::new(Outcome::failure(Error::new(
                ErrorKind::Cancelled,
                "the job was cancelled",
            )))),
        }
    }
}
