//! Jobs and events as JSON for `/v1/` and `jobs --json`, and the summary that the command line shows.

use serde::Deserialize;
use toolyard_formats::json::Object;
use toolyard_protocol::{Event, Job, Progress};

/// `{"jobs": […], "next": id | null}`; `next` is the value of `before` for the next page.
pub fn write_jobs(jobs: &[Job], next: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(jobs.len() * 256 + 32);
    let mut object = Object::new(&mut out);
    object.objects("jobs", jobs, push_row);
    object.text_or_null("next", next);
    object.end();
    out
}

/// One job with its arguments and outcome.
pub fn write_job(job: &Job) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut object = Object::new(&mut out);
    push_row(&mut object, job);
    object.raw("arguments", job.arguments.bytes());
    object.raw("outcome", job.outcome.as_ref().map_or(b"null", |outcome| outcome.bytes()));
    object.end();
    out
}

fn push_row(object: &mut Object<'_>, job: &Job) {
    object.text("job_id", job.id.text().as_str()).text("tool", &job.tool).text("state", job.state.as_str());
    object.text("timing", job.timing.as_str());
    match &job.progress {
        Some(progress) => push_progress(object.member("progress"), progress),
        None => object.member("progress").extend_from_slice(b"null"),
    }
    let times = [("started_at", job.started), ("finished_at", job.finished), ("expires_at", job.expires)];
    object.text("created_at", job.created.text().as_str());
    for (name, time) in times {
        object.text_or_null(name, time.map(|time| time.to_string()).as_deref());
    }
    object.number("attempt", job.attempt.into()).bool("repeatable", job.repeatable);
    object.bool("cancel_requested", job.cancel_requested).text("caller", job.identity.as_str());
}

fn push_progress(out: &mut Vec<u8>, progress: &Progress) {
    let mut object = Object::new(out);
    object.raw("percent", percent(progress).to_string().as_bytes());
    object.text_or_null("message", progress.message.as_deref());
    object.end();
}

/// The progress scaled to 0 to 100.
fn percent(progress: &Progress) -> f64 {
    let total = progress.total.filter(|total| *total > 0.0);
    let percent = total.map_or(progress.done, |total| progress.done / total * 100.0);
    if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 }
}

/// `{"events": […], "cursor", "has_more", "oldest", "newest"}`.
pub fn write_events(events: &[Event], cursor: u64, has_more: bool, (oldest, newest): (u64, u64)) -> Vec<u8> {
    let mut out = Vec::with_capacity(events.len() * 160 + 64);
    let mut object = Object::new(&mut out);
    object.objects("events", events, |row, event| {
        row.number("seq", event.seq).text("at", event.at.text().as_str()).text("type", &event.kind);
        row.text_or_null("subject", event.subject.as_deref()).raw("data", event.data.bytes());
    });
    object.number("cursor", cursor).bool("has_more", has_more);
    object.number("oldest", oldest).number("newest", newest);
    object.end();
    out
}

/// A job as the command line shows it, from this or another process.
#[derive(Clone, Debug, Deserialize)]
pub struct JobSummary {
    pub job_id: String,
    pub tool: String,
    pub state: String,
    pub timing: String,
    pub progress: Option<ProgressSummary>,
    pub created_at: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    pub expires_at: Option<String>,
    pub attempt: u32,
    pub cancel_requested: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ProgressSummary {
    pub percent: f64,
    pub message: Option<String>,
}

#[derive(Deserialize)]
struct JobPage {
    jobs: Vec<JobSummary>,
    next: Option<String>,
}

pub fn read_jobs(json: &[u8]) -> Result<(Vec<JobSummary>, Option<String>), String> {
    let read: JobPage = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    Ok((read.jobs, read.next))
}

pub fn read_job(json: &[u8]) -> Result<JobSummary, String> {
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_protocol::{Id, Identity, JobState, Payload, Timestamp, Timing};

    fn job() -> Job {
        Job {
            id: Id::from_parts(0, [0; 10]),
            tool: "lab.slow".into(),
            arguments: Payload::json(r#"{"n":1}"#),
            identity: Identity::local(),
            timing: Timing::AsyncLong,
            state: JobState::Running,
            progress: Some(Progress { done: 1.0, total: Some(4.0), message: Some("a \"quarter\"".into()) }),
            outcome: None,
            created: Timestamp::from_unix_ms(0),
            started: Some(Timestamp::from_unix_ms(1)),
            finished: None,
            attempt: 1,
            deaths: Vec::new(),
            repeatable: false,
            cancel_requested: false,
            key: None,
            trace: None,
            expires: None,
        }
    }

    #[test]
    fn jobs_are_written_in_the_golden_form() {
        let expected = concat!(
            r#"{"job_id":"00000000-0000-7000-8000-000000000000","tool":"lab.slow","state":"running","timing":"async_long","#,
            r#""progress":{"percent":25,"message":"a \"quarter\""},"created_at":"1970-01-01T00:00:00.000Z","#,
            r#""started_at":"1970-01-01T00:00:00.001Z","finished_at":null,"expires_at":null,"attempt":1,"repeatable":false,"#,
            r#""cancel_requested":false,"caller":"local","arguments":{"n":1},"outcome":null}"#
        );
        assert_eq!(String::from_utf8(write_job(&job())).unwrap(), expected);
        let shown = read_job(expected.as_bytes()).unwrap();
        assert_eq!((shown.state.as_str(), shown.progress.unwrap().percent), ("running", 25.0));
        let (jobs, next) = read_jobs(&write_jobs(&[job(), job()], Some("x"))).unwrap();
        assert_eq!((jobs.len(), next.as_deref()), (2, Some("x")));
    }

    #[test]
    fn percent_is_always_a_number_from_0_to_100() {
        for (done, total, expected) in [
            (50.0, None, 50.0),
            (1.0, Some(2.0), 50.0),
            (7.0, Some(0.0), 7.0),
            (f64::NAN, None, 0.0),
            (f64::INFINITY, None, 0.0),
            (-3.0, None, 0.0),
            (300.0, None, 100.0),
        ] {
            assert_eq!(percent(&Progress { done, total, message: None }), expected, "{done} of {total:?}");
        }
    }
}
