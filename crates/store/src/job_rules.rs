//! Event payloads and validation of jobs, shared by every job store.

use std::time::Duration;
use toolyard_engine::stores::{JobEnd, NewJob, StoreError};
use toolyard_protocol::json::Object;
use toolyard_protocol::{Id, JobState, Progress, Timestamp};

pub const STATE_CHANGED: &str = "job_state_changed";
pub const PROGRESS: &str = "progress";

const MESSAGE_MAX: usize = 1024;

/// The data of a page of events, unless its only event has more.
const PAGE_BYTES: usize = 1 << 20;

/// Whether one more event fits on a page that has `bytes` so far.
pub fn fits_on_page(bytes: usize, more: usize) -> bool {
    bytes == 0 || bytes + more <= PAGE_BYTES
}

/// The progress of a job that has ended: all of it when it is complete, otherwise the last that is known.
pub fn last_progress(state: JobState, known: Option<Progress>) -> Option<Progress> {
    let known = known?;
    if state != JobState::Complete {
        return Some(known);
    }
    let total = known.total.filter(|total| *total > 0.0);
    Some(Progress { done: total.unwrap_or(100.0), total, message: None })
}

/// `{"job_id", "tool", "state"}`.
pub fn state_changed(id: Id, tool: &str, state: JobState) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    let mut object = Object::new(&mut out);
    object.text("job_id", id.text().as_str()).text("tool", tool).text("state", state.as_str());
    object.end();
    out
}

/// `{"job_id", "percent", "message"}`; the message is left out when there is none.
pub fn progress(id: Id, progress: &Progress) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    let mut object = Object::new(&mut out);
    // The debug form of a finite float is valid JSON and never looks like an integer.
    let percent = format!("{:?}", percent(progress));
    object.text("job_id", id.text().as_str()).raw("percent", percent.as_bytes());
    if let Some(message) = &progress.message {
        if message.len() <= MESSAGE_MAX {
            object.text("message", message);
        } else {
            let short = &message[..message.floor_char_boundary(MESSAGE_MAX)];
            object.text("message", &format!("{short}…"));
        }
    }
    object.end();
    out
}

pub fn check_new(new: &NewJob) -> Result<(), StoreError> {
    match new.state {
        JobState::Pending | JobState::Running => Ok(()),
        state => invalid(format!("a new job must be pending or running, not {}", state.as_str())),
    }
}

pub fn check_ending(ending: &JobEnd) -> Result<(), StoreError> {
    if let Some(progress) = &ending.progress {
        check_progress(progress)?;
    }
    if ending.state.is_finished() {
        Ok(())
    } else {
        invalid(format!(
            "a job can end as complete, failed, cancelled or unknown, not {}",
            ending.state.as_str()
        ))
    }
}

pub fn check_progress(progress: &Progress) -> Result<(), StoreError> {
    if progress.done.is_finite() && progress.total.is_none_or(f64::is_finite) {
        Ok(())
    } else {
        invalid("progress values must be finite numbers".into())
    }
}

pub fn check_take_over(from: Id, to: Id) -> Result<(), StoreError> {
    if from == to { invalid(format!("worker {from} cannot take over from itself")) } else { Ok(()) }
}

/// The error of `start` and `set_waiting` for a job in the wrong state.
pub fn wrong_state<T>(id: Id, state: JobState, wanted: &str) -> Result<T, StoreError> {
    invalid(format!("job {id} is {}; this requires {wanted}", state.as_str()))
}

pub fn id_taken<T>(id: Id) -> Result<T, StoreError> {
    invalid(format!("job {id} already exists"))
}

pub fn job_not_found<T>(id: Id) -> Result<T, StoreError> {
    Err(StoreError::NotFound { what: "job", id: id.to_string() })
}

/// Refuses a new job when a limit of open jobs is reached.
pub fn check_open(new: &NewJob, open: u64, open_of_caller: u64) -> Result<(), StoreError> {
    let bound = |whose: &str, count: u64| {
        Err(StoreError::Bound(format!("{whose} {count} open jobs; wait until some have ended")))
    };
    if open_of_caller >= new.max_open_of_caller {
        bound("this caller has", open_of_caller)
    } else if open >= new.max_open {
        bound("there are", open)
    } else {
        Ok(())
    }
}

/// Checks that the event after the cursor is still in the ring, or is the next one.
pub fn check_cursor(cursor: u64, oldest: u64, newest: u64) -> Result<(), StoreError> {
    if cursor > newest {
        invalid(format!("the cursor {cursor} is ahead of the newest event {newest}"))
    } else if cursor + 1 < oldest {
        Err(StoreError::CursorExpired { cursor, oldest })
    } else {
        Ok(())
    }
}

/// When a row expires, clamped to SQLite's signed integers.
pub fn expiry(now: Timestamp, ttl: Duration) -> Timestamp {
    let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_unix_ms(now.unix_ms().saturating_add(ttl).min(i64::MAX as u64))
}

fn percent(progress: &Progress) -> f64 {
    let part = match progress.total {
        Some(total) if total > 0.0 => progress.done / total,
        Some(_) => 0.0,
        None => progress.done / 100.0,
    };
    part.clamp(0.0, 1.0)
}

fn invalid<T>(why: String) -> Result<T, StoreError> {
    Err(StoreError::Invalid(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn id() -> Id {
        Id::from_parts(0x0192_3456_789a, [0xff; 10])
    }

    #[test]
    fn events_of_jobs_are_json_whatever_the_names_hold() {
        let data = state_changed(id(), "odd \"name\"\n", JobState::InputRequired);
        let expected =
            json!({"job_id": id().to_string(), "tool": "odd \"name\"\n", "state": "input_required"});
        assert_eq!(serde_json::from_slice::<Value>(&data).unwrap(), expected);
    }

    #[test]
    fn percent_is_a_part_of_one() {
        for (done, total, percent) in [
            (0.0, None, 0.0),
            (25.0, None, 0.25),
            (250.0, None, 1.0),
            (-3.0, None, 0.0),
            (1.0, Some(3.0), 1.0 / 3.0),
            (5.0, Some(0.0), 0.0),
            (1e-300, Some(1.0), 1e-300),
            (1e300, Some(1e-300), 1.0),
        ] {
            let data = progress(id(), &Progress { done, total, message: None });
            let read: Value = serde_json::from_slice(&data).unwrap();
            assert_eq!(read, json!({"job_id": id().to_string(), "percent": percent}), "{done} {total:?}");
        }
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let message = "é".repeat(600) + "x";
        let data = progress(id(), &Progress { done: 1.0, total: None, message: Some(message) });
        let read: Value = serde_json::from_slice(&data).unwrap();
        assert_eq!(read["message"], "é".repeat(512) + "…");
    }

    #[test]
    fn expiry_never_wraps() {
        let now = Timestamp::from_unix_ms(5);
        assert_eq!(expiry(now, Duration::from_millis(7)).unix_ms(), 12);
        assert_eq!(expiry(now, Duration::MAX).unix_ms(), i64::MAX as u64);
    }
}
