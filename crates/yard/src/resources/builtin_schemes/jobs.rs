//! `job://ID`: one of the caller's jobs with its result. Jobs of other callers are not found.

use super::{BuiltinScheme, OnChange, PAGE_SIZE, TypedBody, WatchFuture};
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::resources::unknown_cursor;
use toolyard_engine::stores::JobFilter;
use toolyard_engine::{RequestContext, RequestFuture};
use toolyard_protocol::{Body, Error, ErrorKind, Id, Job, Resource};
use toolyard_runtimes::builtin::{Group, Services};
use toolyard_wire::jobs;

pub struct JobResults {
    pub services: Arc<Services>,
}

const MIME: &str = "application/json";
/// One round of waiting for the end of a job.
const ROUND: Duration = Duration::from_secs(60);

impl BuiltinScheme for JobResults {
    const SCHEME: &'static str = "job";
    const GROUP: Group = Group::Jobs;
    const DESCRIPTION: &'static str = "One of your jobs: its state and its result";

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Vec<Resource>> {
        Box::pin(async move {
            let before = cursor.map(|cursor| Id::parse(cursor).ok_or_else(unknown_cursor)).transpose()?;
            let identity = context.identity.visible();
            let filter = JobFilter { identity, before, limit: PAGE_SIZE, ..JobFilter::default() };
            let found = self.services.jobs()?.list(filter).await?;
            Ok(found.iter().map(resource).collect())
        })
    }

    fn read<'a>(&'a self, id: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, Option<TypedBody>> {
        Box::pin(async move {
            let Some(id) = Id::parse(id) else { return Ok(None) };
            let job = match self.services.jobs()?.get(id, context.identity).await {
                Ok(job) => job,
                Err(error) if error.kind == ErrorKind::ResourceNotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let text = String::from_utf8(jobs::write_job(&job));
            let text = text.map_err(|_| Error::new(ErrorKind::Internal, "a job is not UTF-8"))?;
            Ok(Some(TypedBody { mime: MIME.to_owned(), body: Body::Text(text) }))
        })
    }

    /// Reports the end of the job.
    fn watch(&self, id: &str, context: RequestContext<'_>, on_change: OnChange) -> Option<WatchFuture> {
        let (id, jobs) = (Id::parse(id)?, self.services.jobs().ok()?.clone());
        let identity = context.identity.clone();
        Some(Box::pin(async move {
            if jobs.get(id, &identity).await.is_ok_and(|job| job.state.is_finished()) {
                return;
            }
            while let Ok(job) = jobs.wait(id, &identity, ROUND).await {
                if job.state.is_finished() {
                    return on_change();
                }
            }
        }))
    }
}

fn resource(job: &Job) -> Resource {
    Resource {
        uri: format!("{}://{}", JobResults::SCHEME, job.id),
        name: job.id.to_string(),
        title: Some(job.tool.clone()),
        description: Some(format!("{}, {}", job.tool, job.state.as_str())),
        mime: Some(MIME.to_owned()),
        ..Resource::default()
    }
}
