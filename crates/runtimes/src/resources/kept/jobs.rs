//! `job://ID`: one of the caller's jobs with its result. Those of others are as unknown as jobs that never were.

use super::{Content, Following, Kind, PAGE, Tell};
use crate::builtin::{Group, Services};
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::resources::unknown_cursor;
use toolyard_engine::stores::JobFilter;
use toolyard_engine::{Behalf, Found};
use toolyard_protocol::{Body, Error, ErrorKind, Id, Job, Resource};
use toolyard_wire::jobs;

pub struct JobResults {
    pub services: Arc<Services>,
}

const MIME: &str = "application/json";
/// One round of waiting for the end of a job.
const ROUND: Duration = Duration::from_secs(60);

impl Kind for JobResults {
    const SCHEME: &'static str = "job";
    const GROUP: Group = Group::Jobs;
    const DESCRIPTION: &'static str = "A job of yours: where it stands, and its result";

    fn list<'a>(&'a self, cursor: Option<&'a str>, behalf: Behalf<'a>) -> Found<'a, Vec<Resource>> {
        Box::pin(async move {
            let before = cursor.map(|cursor| Id::parse(cursor).ok_or_else(unknown_cursor)).transpose()?;
            let identity = Some(behalf.identity.clone());
            let filter = JobFilter { identity, before, limit: PAGE, ..JobFilter::default() };
            let found = self.services.jobs()?.list(filter).await?;
            Ok(found.iter().map(resource).collect())
        })
    }

    fn read<'a>(&'a self, id: &'a str, behalf: Behalf<'a>) -> Found<'a, Option<Content>> {
        Box::pin(async move {
            let Some(id) = Id::parse(id) else { return Ok(None) };
            let job = match self.services.jobs()?.get(id, behalf.identity).await {
                Ok(job) => job,
                Err(error) if error.kind == ErrorKind::ResourceNotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let text = String::from_utf8(jobs::write_job(&job));
            let text = text.map_err(|_| Error::new(ErrorKind::Internal, "a job is not UTF-8"))?;
            Ok(Some(Content { mime: MIME.to_owned(), body: Body::Text(text) }))
        })
    }

    /// Tells of its end.
    fn follow(&self, id: &str, behalf: Behalf<'_>, tell: Tell) -> Option<Following> {
        let (id, jobs) = (Id::parse(id)?, self.services.jobs().ok()?.clone());
        let identity = behalf.identity.clone();
        Some(Box::pin(async move {
            if jobs.get(id, &identity).await.is_ok_and(|job| job.state.is_over()) {
                return;
            }
            while let Ok(job) = jobs.wait(id, &identity, ROUND).await {
                if job.state.is_over() {
                    return tell();
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
