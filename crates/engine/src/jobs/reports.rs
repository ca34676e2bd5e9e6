//! Progress and log lines of a job on their way to the store: in order, several per write, within a bound.

use super::Jobs;
use super::handle::{JobHandle, lock};
use crate::stores::{Lease, NewEvent};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use toolyard_protocol::json::Object;
use toolyard_protocol::{LogLevel, LogLine, Payload, Progress};

/// The minimum interval between progress writes; listeners receive every update, and the row the last one.
const WRITE_EVERY: Duration = Duration::from_millis(250);

/// Log lines that wait to be written; more are left out, and their number is logged.
const MAX_WAITING_BYTES: usize = 4 << 20;

#[derive(Default)]
pub struct Reports {
    waiting: Mutex<Waiting>,
    /// Notified when everything is written.
    written: Notify,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<NewEvent>,
    bytes: usize,
    left_out: u64,
    progress: Option<Progress>,
    /// The last progress, which the end of the job takes along unless it was written.
    last: Option<Progress>,
    progress_written: Option<Instant>,
    is_writing: bool,
}

impl Reports {
    pub fn progress(handle: &Arc<JobHandle>, jobs: &Arc<Jobs>, lease: Lease, progress: Progress) {
        let mut waiting = lock(&handle.reports.waiting);
        if waiting.progress_written.is_none_or(|at| at.elapsed() >= WRITE_EVERY) {
            waiting.progress_written = Some(Instant::now());
            (waiting.progress, waiting.last) = (Some(progress), None);
            waiting.write(handle, jobs, lease);
        } else {
            waiting.last = Some(progress);
        }
    }

    pub fn log(handle: &Arc<JobHandle>, jobs: &Arc<Jobs>, lease: Lease, line: &LogLine) {
        let mut waiting = lock(&handle.reports.waiting);
        let event = event(jobs, lease, line);
        if waiting.bytes + event.data.len() > MAX_WAITING_BYTES {
            waiting.left_out += 1;
            return;
        }
        waiting.bytes += event.data.len();
        waiting.lines.push(event);
        waiting.write(handle, jobs, lease);
    }

    /// Waits until everything is written, and returns the last progress that is not.
    pub async fn finish(&self) -> Option<Progress> {
        loop {
            let written = self.written.notified();
            {
                let mut waiting = lock(&self.waiting);
                if !waiting.is_writing {
                    return waiting.last.take();
                }
            }
            written.await;
        }
    }

    /// What to write next; `None` ends the writing.
    fn next(&self, jobs: &Jobs, lease: Lease) -> Option<(Option<Progress>, Vec<NewEvent>)> {
        let mut waiting = lock(&self.waiting);
        let (progress, mut lines) = (waiting.progress.take(), std::mem::take(&mut waiting.lines));
        waiting.bytes = 0;
        let left_out = std::mem::take(&mut waiting.left_out);
        if left_out > 0 {
            let text = format!(r#""{left_out} log lines were written too fast to be stored""#);
            let line = LogLine { level: LogLevel::Warning, logger: None, data: Payload::json(text) };
            lines.push(event(jobs, lease, &line));
        }
        waiting.is_writing = progress.is_some() || !lines.is_empty();
        waiting.is_writing.then_some((progress, lines))
    }
}

impl Waiting {
    /// Starts a task that writes until nothing is left, unless there is one.
    fn write(&mut self, handle: &Arc<JobHandle>, jobs: &Arc<Jobs>, lease: Lease) {
        if std::mem::replace(&mut self.is_writing, true) {
            return;
        }
        let (handle, jobs) = (handle.clone(), jobs.clone());
        tokio::spawn(async move {
            while let Some((progress, lines)) = handle.reports.next(&jobs, lease) {
                // On a full disk reports are lost; the result is not.
                if let Some(progress) = progress {
                    let _ = jobs.store.progress(lease, progress, jobs.now()).await;
                }
                if !lines.is_empty() {
                    let _ = jobs.events.append(lines).await;
                }
            }
            handle.reports.written.notify_waiters();
        });
    }
}

fn event(jobs: &Jobs, lease: Lease, line: &LogLine) -> NewEvent {
    let mut out = Vec::with_capacity(line.data.len() + 96);
    let mut object = Object::new(&mut out);
    object
        .text("job_id", lease.id.text().as_str())
        .text("level", line.level.as_str())
        .text("source", line.logger.as_deref().unwrap_or("tool"))
        .raw("message", line.data.bytes());
    object.end();
    let subject = Some(lease.id.to_string());
    NewEvent { at: jobs.now(), kind: "log".to_owned(), subject, data: Payload::json(out) }
}
