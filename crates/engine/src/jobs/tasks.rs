//! Jobs as the tasks of a client that follows them by their id.

use super::JobsDoor;
use crate::behalf::Found;
use crate::stores::{EventQuery, StoreError};
use crate::tasks::{Changed, Task, Tasks};
use std::time::Duration;
use toolyard_protocol::{Answer, Error, ErrorKind, Id, Identity, Payload};

/// How often it is worth asking.
const POLL: Duration = Duration::from_millis(500);

/// How long to wait for a change at a time.
const WAIT: Duration = Duration::from_secs(20);

/// Changes that are told at once.
const AT_ONCE: usize = 200;

impl Tasks for JobsDoor {
    fn get<'a>(&'a self, id: Id, identity: &'a Identity) -> Found<'a, Option<Task>> {
        Box::pin(async move {
            let jobs = self.jobs()?;
            let Some(job) = known(jobs.get(id, identity).await)? else { return Ok(None) };
            let outcome = if job.state.is_over() { Some(jobs.outcome_of(&job)?) } else { None };
            let kept = job.expires.map(|expires| expires.unix_ms().saturating_sub(job.created.unix_ms()));
            Ok(Some(Task {
                questions: jobs.questions(id),
                outcome,
                ttl: kept.map(Duration::from_millis),
                poll: POLL,
                job,
            }))
        })
    }

    fn cancel<'a>(&'a self, id: Id, identity: &'a Identity) -> Found<'a, bool> {
        Box::pin(async move { Ok(known(self.jobs()?.cancel(id, identity).await)?.is_some()) })
    }

    fn answer<'a>(
        &'a self,
        id: Id,
        identity: &'a Identity,
        answers: Vec<(String, Payload)>,
    ) -> Found<'a, bool> {
        Box::pin(async move {
            let jobs = self.jobs()?;
            if known(jobs.get(id, identity).await)?.is_none() {
                return Ok(false);
            }
            for (key, answer) in answers {
                jobs.answer(id, &key, Answer(answer));
            }
            Ok(true)
        })
    }

    fn changed(&self, after: Option<u64>) -> Found<'_, Changed> {
        Box::pin(async move {
            let events = self.jobs()?.events();
            let kinds = vec!["job_state_changed".to_owned(), "progress".to_owned()];
            let query = EventQuery { after, kinds, limit: AT_ONCE, ..EventQuery::default() };
            let mut page = match events.read(query.clone()).await {
                Ok(page) => page,
                Err(StoreError::CursorExpired { .. } | StoreError::Invalid(_)) => {
                    let now = events.read(EventQuery::default()).await?.cursor;
                    return Ok(Changed { cursor: now, jobs: None });
                }
                Err(error) => return Err(error.into()),
            };
            if after.is_some() && page.events.is_empty() {
                events.wait(page.cursor, WAIT).await?;
                page = events.read(EventQuery { after: Some(page.cursor), ..query }).await?;
            }
            let ids = page.events.iter().filter_map(|event| Id::parse(event.subject.as_deref()?));
            let mut ids: Vec<Id> = ids.collect();
            ids.dedup();
            Ok(Changed { cursor: page.cursor, jobs: Some(ids) })
        })
    }
}

/// A job that is not there is no failure.
fn known<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind == ErrorKind::ResourceNotFound => Ok(None),
        Err(error) => Err(error),
    }
}
