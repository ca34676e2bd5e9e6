//! Jobs as MCP tasks, which clients follow by id.

use super::LazyJobs;
use crate::request_context::RequestFuture;
use crate::stores::{EventQuery, StoreError};
use crate::tasks::{Task, TaskChanges, Tasks};
use std::time::Duration;
use toolyard_protocol::{Error, ErrorKind, Id, Identity, InputResponse, Payload};

/// The interval at which clients should poll.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The longest wait for a change.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// The most changes returned at once.
const MAX_EVENTS: usize = 200;

impl Tasks for LazyJobs {
    fn get<'a>(&'a self, id: Id, identity: &'a Identity) -> RequestFuture<'a, Option<Task>> {
        Box::pin(async move {
            let jobs = self.get()?;
            let Some(job) = none_if_not_found(jobs.get(id, identity).await)? else { return Ok(None) };
            let outcome = if job.state.is_finished() { Some(jobs.outcome_of(&job)?) } else { None };
            let ttl_ms = job.expires.map(|expires| expires.unix_ms().saturating_sub(job.created.unix_ms()));
            Ok(Some(Task {
                questions: jobs.questions(id),
                outcome,
                ttl: ttl_ms.map(Duration::from_millis),
                poll_interval: POLL_INTERVAL,
                job,
            }))
        })
    }

    fn cancel<'a>(&'a self, id: Id, identity: &'a Identity) -> RequestFuture<'a, bool> {
        Box::pin(async move { Ok(none_if_not_found(self.get()?.cancel(id, identity).await)?.is_some()) })
    }

    fn answer<'a>(
        &'a self,
        id: Id,
        identity: &'a Identity,
        answers: Vec<(String, Payload)>,
    ) -> RequestFuture<'a, bool> {
        Box::pin(async move {
            let jobs = self.get()?;
            if none_if_not_found(jobs.get(id, identity).await)?.is_none() {
                return Ok(false);
            }
            for (key, answer) in answers {
                jobs.answer(id, &key, InputResponse(answer));
            }
            Ok(true)
        })
    }

    fn wait_for_changes(&self, after: Option<u64>) -> RequestFuture<'_, TaskChanges> {
        Box::pin(async move {
            let events = self.get()?.events();
            let kinds = vec!["job_state_changed".to_owned(), "progress".to_owned()];
            let query = EventQuery { after, kinds, limit: MAX_EVENTS, ..EventQuery::default() };
            let mut page = match events.read(query.clone()).await {
                Ok(page) => page,
                Err(StoreError::CursorExpired { .. } | StoreError::Invalid(_)) => {
                    let now = events.read(EventQuery::default()).await?.cursor;
                    return Ok(TaskChanges { cursor: now, jobs: None });
                }
                Err(error) => return Err(error.into()),
            };
            if after.is_some() && page.events.is_empty() {
                events.wait(page.cursor, MAX_WAIT).await?;
                page = events.read(EventQuery { after: Some(page.cursor), ..query }).await?;
            }
            let ids = page.events.iter().filter_map(|event| Id::parse(event.subject.as_deref()?));
            let mut ids: Vec<Id> = ids.collect();
            ids.dedup();
            Ok(TaskChanges { cursor: page.cursor, jobs: Some(ids) })
        })
    }
}

/// Maps a job that is not found to `None`.
fn none_if_not_found<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind == ErrorKind::ResourceNotFound => Ok(None),
        Err(error) => Err(error),
    }
}
